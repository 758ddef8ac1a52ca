"""Names and ids as files of people write them, read with the same leniency by all importers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from hasse.models.datasets.source import is_file
from hasse.models.spelling import composed, visible

LARGEST_ID = 2**63 - 1  # the largest SQL BIGINT
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,100}\s*")


def plain_name(name: str) -> str:
    """Return a file name without spaces around it, and with forward slashes."""
    return name.strip().replace("\\", "/").removeprefix("./")


def normalised_name(name: str) -> str:
    """Return a plain name in the Unicode form that has one character for an accented letter."""
    return composed(plain_name(name))


def stays_inside(file_name: str) -> bool:
    """Return whether a name is relative and cannot lead out of its folder."""
    name = PurePosixPath(file_name)
    return not name.is_absolute() and ".." not in name.parts


def as_id(value: object) -> int | str:
    """Return an id as a number, also from text; or what is wrong with it."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return "id that is not a whole number"
    if value < 0:
        return "negative id"
    return value if value <= LARGEST_ID else "id of more than 64 bits"


class NameIndex:
    """Finds file names on the disk by similar names.

    A name may be in another Unicode form, in other case, or without its extension; the closest
    match decides. If a name matches several files equally well, none is returned.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find(self, name: str) -> str | None:
        """Return the file name that matches, or None."""
        if name in self._names:
            return name
        same = composed(visible(name))
        closest_first = ((same, self._composed), (same.casefold(), self._folded))
        for key, names in (*closest_first, (same.casefold(), self._stems)):
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
        """Return the names by their keys; None for a key of several names."""
        by_name: dict[str, str | None] = {}
        for name in self._names:
            name_key = key(composed(visible(name)))
            by_name[name_key] = None if name_key in by_name else name
        return by_name


class FileFinder:
    """Finds files by names that may be spelled differently on the disk."""

    def __init__(self) -> None:
        self._listed: dict[Path, NameIndex] = {}

    def find(self, folders: Sequence[Path], name: str) -> tuple[str, Path]:
        """Return a name, with forward slashes if needed, and the path of its file.

        Returns the first file in one of the folders; if there is none, a path in the last folder.
        """
        spellings = dict.fromkeys(filter(stays_inside, (name, plain_name(name))))
        for spelling in spellings:
            for folder in folders:
                if is_file(path := folder / spelling):
                    return spelling, path
        plain = next(reversed(spellings))
        for folder in folders:
            if (variant := self._differently_spelled(folder, plain)) is not None:
                return plain, variant
        return plain, folders[-1] / plain

    def _differently_spelled(self, folder: Path, name: str) -> Path | None:
        """Return the file whose name is spelled differently, or None."""
        path = folder
        for part in PurePosixPath(name).parts:
            name_on_disk = self._names_in(path).find(part)
            if name_on_disk is None:
                return None
            path = path / name_on_disk
        return path if is_file(path) else None

    def _names_in(self, folder: Path) -> NameIndex:
        if folder not in self._listed:
            try:
                self._listed[folder] = NameIndex(path.name for path in folder.iterdir())
            except OSError:
                self._listed[folder] = NameIndex(())
        return self._listed[folder]
