"""`hasse remove`: removes pictures, folders and saved searches from a library."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.models.spelling import composed
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Library
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.store import Index
    from hasse.index.types import FolderRow


_FEW = 10  # pictures that are removed without asking


def remove(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER|PICTURE|ID|@SEARCH", help="As 'hasse status' or hits show them."
        ),
    ] = None,
    library: Library = None,
    kept_texts: Annotated[
        bool,
        typer.Option(
            "--kept-texts", help="Forget captions and keywords of pictures that are gone."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before.")] = False,
) -> None:
    """Remove pictures, or a folder with its pictures, from the library. The files stay.

    A folder may be added again; one within it that was added by its own name stays. A picture of a
    folder stays out until it is added by name. Captions and keywords that people gave are kept, and
    come back with the picture. @SEARCH deletes a saved search.

    \b
    Examples:
      hasse remove ~/Pictures/scans
      hasse remove ~/Pictures/beach.jpg 17
      hasse remove --kept-texts
    """
    from hasse.index.catalog.searches import delete_search
    from hasse.index.store import Index
    from hasse.service.writing.folders.forget import forget, forgotten

    if not names and not kept_texts:
        raise CommandError("name what to remove: 'hasse status' lists folders")
    searches = [name for name in names or () if name.startswith("@")]
    pictures = [name for name in names or () if not name.startswith("@")]
    with Index.open(configure(library=library).index, verify="sizes") as opened:
        folders, ids = find_pictures(opened, pictures)
        leaving = ids.union(*(forgotten(opened, folder).removed_images for folder in folders))
        if not yes:
            _ask(*_losses(opened, leaving, kept_texts=kept_texts))
        for search in searches:
            if not delete_search(opened.catalog, search[1:]):
                raise CommandError(f"there is no search {search}: 'hasse search @' lists them")
            typer.echo(f"{search} forgotten")
        removed = len(ids)
        if ids:
            opened.remove(sorted(ids))
        for folder in folders:
            removed += forget(opened, folder)
        if kept_texts:
            opened.forget_kept_texts()
    if pictures:
        typer.echo(f"{count(removed, 'picture')} removed")


def _losses(index: Index, ids: Collection[int], *, kept_texts: bool) -> tuple[str, str]:
    """Return what a removal takes and what it keeps, in words; "" where it takes little."""
    images = index.catalog.images(ids)
    given = index.catalog.given_texts(image.sha256 for image in images.values())
    texts = count(sum(map(len, given.values())), "text")
    taken = [count(len(ids), "picture")] if given or len(ids) > _FEW else []
    if kept_texts and (kept := index.catalog.count_kept_texts()[0]):
        return " and ".join([*taken, f"{count(kept, 'text')} of pictures that are gone"]), ""
    return " and ".join(taken), f"; kept: {texts} that people gave" if given else ""


def _ask(taken: str, kept: str) -> None:
    """Ask before much is removed; raises CommandError unless the answer is yes."""
    if not taken:
        return
    try:
        answer = typer.confirm(f"Remove {taken} from the library{kept}?", err=True)
    except typer.Abort:
        typer.echo(err=True)
        raise CommandError(
            f"nothing was removed, it would be {taken}{kept}: give --yes where nobody can answer"
        ) from None
    if not answer:
        raise CommandError("nothing was removed")


def find_pictures(index: Index, names: Sequence[str]) -> tuple[list[FolderRow], set[int]]:
    """Return the followed folders and the ids of images with these names.

    Raises:
        CommandError: nothing in the library has one of the names.
    """
    locations = index.catalog.locations(index.folder, find_missing=True)
    rows = [locations.folders[name] for name in locations.roots]
    roots = {composed(row.path): row for row in rows}
    paths = index.catalog.all_paths()
    ids_of = {composed(locations.absolute(row.path)): row.image_id for row in paths}
    folders, ids = [], set[int]()
    for name in names:
        root = roots.get(composed(os.path.realpath(name)))
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
    file_path = composed(f"{os.path.realpath(path.parent)}/{path.name}")
    below = composed(f"{os.path.realpath(path)}/")
    yield from (id_ for file, id_ in ids_of.items() if file == file_path or file.startswith(below))
