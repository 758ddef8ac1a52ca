"""`hasse remove`: removes pictures, folders and saved searches from a library."""

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
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER|PICTURE|ID|@SEARCH", help="As 'hasse status' or hits show them."
        ),
    ],
    library: Library = None,
) -> None:
    """Remove pictures, or a folder with its pictures, from the library. The files stay.

    A folder may be added again. A picture of a folder stays out until it is added by name.
    @SEARCH deletes a saved search.

    \b
    Examples:
      hasse remove ~/Pictures/scans
      hasse remove ~/Pictures/beach.jpg 17
    """
    from hasse.index.catalog.searches import delete_search
    from hasse.index.store import Index
    from hasse.service.writing.folders.forget import forget

    searches = [name for name in names if name.startswith("@")]
    pictures = [name for name in names if not name.startswith("@")]
    with Index.open(configure(library=library).index, verify="sizes") as opened:
        folders, ids = _resolve(opened, pictures)
        for search in searches:
            if not delete_search(opened.catalog, search[1:]):
                raise CommandError(f"there is no search {search}: 'hasse search @' lists them")
            typer.echo(f"{search} forgotten")
        removed = len(ids)
        if ids:
            opened.remove(sorted(ids))
        for folder in folders:
            removed += forget(opened, folder)
    if pictures:
        typer.echo(f"{count(removed, 'picture')} removed")


def _resolve(index: Index, names: Sequence[str]) -> tuple[list[FolderRow], set[int]]:
    """Return the followed folders and the ids of images with these names.

    Raises:
        CommandError: nothing in the library has one of the names.
    """
    locations = index.catalog.locations(index.folder, find_missing=True)
    roots = {locations.folders[name].path: locations.folders[name] for name in locations.roots}
    ids_of = {locations.absolute(row.path): row.image_id for row in index.catalog.all_paths()}
    folders, ids = [], set[int]()
    for name in names:
        root = roots.get(os.path.realpath(name))
        if name.isdecimal():
            ids.add(int(name))
        elif root is not None:
            folders.append(root)
        elif ids_within := set(_ids_within(Path(name), ids_of)):
            ids |= ids_within
        else:
            raise CommandError(f"nothing in the library is {name}: 'hasse status' lists folders")
    return folders, ids


def _ids_within(path: Path, ids_of: Mapping[str, int]) -> Iterator[int]:
    """Yield the id of a picture, or the ids of the pictures in a folder."""
    file_path = f"{os.path.realpath(path.parent)}/{path.name}"
    below = f"{os.path.realpath(path)}/"
    yield from (id_ for file, id_ in ids_of.items() if file == file_path or file.startswith(below))
