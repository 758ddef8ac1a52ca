"""Names and ids as people's files write them: one leniency for all importers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from hasse.models.datasets.source import is_file

LARGEST_ID = 2**63 - 1  # the largest SQL BIGINT
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,100}\s*")


def plain_name(name: str) -> str:
    """Return a file name without spaces around it, and with forward slashes."""
    return name.strip().replace("\\", "/").removeprefix("./")


def comparable(name: str) -> str:
    """Return a plain name in one Unicode form: a letter and its accent are one character or two."""
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


class NameIndex:
    """Finds names that the disk has by names as people write them.

    A name may be in another Unicode form, in other case, or without its extension. The way that is
    closest decides; a name that fits several files alike finds none.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find(self, written: str) -> str | None:
        """Return the name that is meant, or None."""
        if written in self._names:
            return written
        composed = unicodedata.normalize("NFC", written)
        ways = ((composed, self._composed), (composed.casefold(), self._folded))
        for key, names in (*ways, (composed.casefold(), self._stems)):
            if key in names:
                return names[key]
        return None

    @cached_property
    def _composed(self) -> dict[str, str | None]:
        return self._by(lambda name: name)

    @cached_property
    def _folded(self) -> dict[str, str | None]:
        return self._by(str.casefold)

    @cached_property
    def _stems(self) -> dict[str, str | None]:
        return self._by(lambda name: PurePosixPath(name).with_suffix("").as_posix().casefold())

    def _by(self, key: Callable[[str], str]) -> dict[str, str | None]:
        """Return the names by a key of them; None where several have the same."""
        by_name: dict[str, str | None] = {}
        for name in self._names:
            of_name = key(unicodedata.normalize("NFC", name))
            by_name[of_name] = None if of_name in by_name else name
        return by_name


class FileFinder:
    """Finds files by names that may be written otherwise than on the disk."""

    def __init__(self) -> None:
        self._listed: dict[Path, NameIndex] = {}

    def find(self, folders: Sequence[Path], name: str) -> tuple[str, Path]:
        """Return a name, with forward slashes where needed, and the path of its file.

        The file is the first that is in one of the folders; if there is none, a path in the last.
        """
        written = dict.fromkeys(one for one in (name, plain_name(name)) if stays_inside(one))
        for one in written:
            for folder in folders:
                if is_file(path := folder / one):
                    return one, path
        plain = next(reversed(written))
        for folder in folders:
            if (other := self._otherwise(folder, plain)) is not None:
                return plain, other
        return plain, folders[-1] / plain

    def _otherwise(self, folder: Path, name: str) -> Path | None:
        """Return the file whose name is written in another way."""
        place = folder
        for part in PurePosixPath(name).parts:
            actual = self._names_in(place).find(part)
            if actual is None:
                return None
            place = place / actual
        return place if is_file(place) else None

    def _names_in(self, folder: Path) -> NameIndex:
        if folder not in self._listed:
            try:
                self._listed[folder] = NameIndex(path.name for path in folder.iterdir())
            except OSError:
                self._listed[folder] = NameIndex(())
        return self._listed[folder]
