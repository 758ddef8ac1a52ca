"""`hasse remove`: takes pictures or a folder out of a library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Library
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.store import Index
    from hasse.index.types import FolderRow


def remove(
    *,
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER|PICTURE|ID|@SEARCH", help="As 'hasse status' or hits show them."
        ),
    ],
    library: Library = None,
) -> None:
    """Take pictures, or a folder with its pictures, out of the library. The files stay.

    A folder may be added again. A picture of a folder stays out until it is added by name. A
    search that was kept is forgotten.

    \b
    Examples:
      hasse remove ~/Pictures/scans
      hasse remove ~/Pictures/beach.jpg 17
    """
    from hasse.index.catalog.searches import delete_search
    from hasse.index.store import Index
    from hasse.service.writing.folders.forget import forget

    searches = [text for text in named if text.startswith("@")]
    named = [text for text in named if not text.startswith("@")]
    with Index.open(configure(library=library).index, verify="sizes") as opened:
        folders, ids = _found(opened, named)
        for text in searches:
            if not delete_search(opened.catalog, text[1:]):
                raise CommandError(f"there is no search {text}: 'hasse search @' lists them")
            typer.echo(f"{text} forgotten")
        removed = len(ids)
        if ids:
            opened.remove(sorted(ids))
        for folder in folders:
            removed += forget(opened, folder)
    if named:
        typer.echo(f"{count(removed, 'picture')} removed")


def _found(index: Index, named: Sequence[str]) -> tuple[list[FolderRow], set[int]]:
    """Return the followed folders and the ids of images that arguments name.

    Raises:
        CommandError: one names nothing in the library.
    """
    locations = index.catalog.locations(index.folder, find_missing=True)
    roots = {locations.folders[name].path: locations.folders[name] for name in locations.roots}
    known = {locations.absolute(row.path): row.image_id for row in index.catalog.all_paths()}
    folders, ids = [], set[int]()
    for text in named:
        root = roots.get(os.path.realpath(text))
        if text.isdecimal():
            ids.add(int(text))
        elif root is not None:
            folders.append(root)
        elif found := set(_within(Path(text), known)):
            ids |= found
        else:
            raise CommandError(f"nothing in the library is {text}: 'hasse status' lists folders")
    return folders, ids


def _within(path: Path, known: Mapping[str, int]) -> Iterator[int]:
    """Yield the ids of a picture, or of those in a folder."""
    place = f"{os.path.realpath(path.parent)}/{path.name}"
    below = f"{os.path.realpath(path)}/"
    yield from (id_ for file, id_ in known.items() if file == place or file.startswith(below))
