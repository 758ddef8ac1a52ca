"""Caption files beside pictures: `beach.txt`, `beach.caption` or `beach.jpg.txt` of `beach.jpg`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePath

SUFFIXES = frozenset({".txt", ".caption"})


def caption_files(files: Iterable[str], pictures: Collection[str]) -> dict[str, list[str]]:
    """Return the caption files among the files of a folder, with their pictures' names.

    A file belongs to the pictures with exactly its name. If there are none, it belongs to those
    whose name differs in case only.
    """
    exact: dict[str, list[str]] = {}
    folded: dict[str, list[str]] = {}
    for picture in pictures:
        for name in {picture, PurePath(picture).stem}:
            exact.setdefault(name, []).append(picture)
            folded.setdefault(name.casefold(), []).append(picture)
    owners = {}
    for file in sorted(files):
        name, suffix = PurePath(file).stem, PurePath(file).suffix
        if suffix.lower() in SUFFIXES and file not in pictures:
            owners[file] = exact.get(name) or folded.get(name.casefold(), [])
    return {file: names for file, names in owners.items() if names}
