"""`hasse status`: what a library holds, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.options import Json, Library

if TYPE_CHECKING:
    from hasse.index.store import Index


def status(
    *,
    library: Library = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read every file and compare it with its checksum; 1 if any is wrong."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what the library holds, its folders, and what 'hasse sync' would find changed.

    \b
    Examples:
      hasse status
      hasse status --verify
    """
    import json

    from hasse.index.store import Index
    from hasse.service.cli.collection.index_report import print_status, print_verification

    folder = configure(library=library).index
    checked = _verification(folder) if verify else None
    found = None
    if checked is None or not checked["findings"]:  # what is damaged may not open
        with Index.open(folder, verify="sizes") as opened:
            found = _status(opened)
    if as_json:
        document = (found or {}) | {"verification": checked}
        typer.echo(json.dumps(document, indent=2, default=str))
    else:
        if found is not None:
            print_status(found)
        if checked is not None:
            print_verification(checked)
    raise typer.Exit(0 if checked is None or checked["ok"] else 1)


def _status(index: Index) -> dict[str, Any]:
    """Return what an index holds, and how its folders differ from it, by paths and times alone."""
    from hasse.service.writing.folders.catalog_state import CatalogState
    from hasse.service.writing.folders.scan import scan

    locations = index.catalog.locations(index.folder, find_missing=True)
    folders = locations.followed_folders
    seen = scan(folders, locations=locations, index_folder=index.folder)
    state = CatalogState.of(index, seen.roots.values())
    known = state.files
    unread = [file.path for file in state.files_to_hash(seen) if not state.has_failed_before(file)]
    info = index.info()
    return {
        "library": str(index.folder),
        "model": info.model.name,
        "pictures": info.images,
        "captions": info.captions,
        "bytes": info.bytes,
        "generation": info.generation,
        "folders": [
            {
                "path": str(folder),
                "present": folder.is_dir(),
                "pictures": sum(path.startswith(f"{folder}/") for path in known),
            }
            for folder in folders
        ],
        "new": sum(
            path not in known and locations.catalog_path(path) not in state.removed_paths
            for path in unread
        ),
        # A file that was just written when it was read has no size yet.
        "changed": sum(any(row.size for row in known.get(path, ())) for path in unread),
        "gone": sum(
            path not in seen.files and any(Path(path).is_relative_to(one) for one in folders)
            for path in known
        ),
        "unreadable": len(state.unreadable_files),
        "text_read": index.catalog.count_with_text("text in the picture"),
    }


def _verification(folder: Path) -> dict[str, Any]:
    """Compare every file of a library with its checksum, and every picture with its bytes."""
    from dataclasses import asdict

    from hasse.index.verify import changed_pictures, verify
    from hasse.service.cli.terminal.progress import progress

    with progress("checking bytes") as report:
        found = verify(folder, progress=report)
    with progress("checking pictures") as report:
        pictures = changed_pictures(folder, progress=report)
    return asdict(found) | {"pictures": pictures, "ok": found.ok and not pictures}
