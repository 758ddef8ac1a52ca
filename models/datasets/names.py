"""Names and ids as people's files write them: one leniency for all importers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from hasse.models.datasets.source import is_file

LARGEST_ID = 2**63 - 1  # the largest SQL BIGINT
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,100}\s*")


def plain_name(name: str) -> str:
    """Return a file name without spaces around it, and with forward slashes."""
    return name.strip().replace("\\", "/").removeprefix("./")


def comparable(name: str) -> str:
    """Return what is the same for all ways in which a file name may be written.

    A letter and its accent are one character or two.
    """
    return unicodedata.normalize("NFC", plain_name(name))


def stays_inside(file_name: str) -> bool:
    """Tell whether a name leads to no place outside the folder that it is looked for in."""
    name = PurePosixPath(file_name)
    return not name.is_absolute() and ".." not in name.parts


def as_id(value: object) -> int | str:
    """Return an id as a number, also if it is written as text; or what is wrong with it."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return "no whole number as id"
    if value < 0:
        return "negative id"
    return value if value <= LARGEST_ID else "id of more than 64 bits"


class FileFinder:
    """Finds files by names that may be written otherwise than on the disk."""

    def __init__(self) -> None:
        self._names: dict[Path, dict[str, str]] = {}

    def find(self, folders: Sequence[Path], name: str) -> tuple[str, Path]:
        """Return a name, with forward slashes where needed, and the path of its file.

        The file is the first that is in one of the folders; if there is none, a path in the last.
        """
        written = dict.fromkeys(one for one in (name, plain_name(name)) if stays_inside(one))
        for one in written:
            for folder in folders:
                if is_file(found := folder / one):
                    return one, found
        plain = next(reversed(written))
        for folder in folders:
            if (other := self._otherwise(folder, plain)) is not None:
                return plain, other
        return plain, folders[-1] / plain

    def _otherwise(self, folder: Path, name: str) -> Path | None:
        """Return the file whose name is the same in another Unicode form."""
        if name.isascii():
            return None
        place = folder
        for part in PurePosixPath(name).parts:
            actual = self._listed(place).get(unicodedata.normalize("NFC", part))
            if actual is None:
                return None
            place = place / actual
        return place if is_file(place) else None

    def _listed(self, folder: Path) -> dict[str, str]:
        if folder not in self._names:
            try:
                names = [path.name for path in folder.iterdir()]
            except OSError:
                names = []
            self._names[folder] = {unicodedata.normalize("NFC", name): name for name in names}
        return self._names[folder]
