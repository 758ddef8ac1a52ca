"""`hasse status`: prints the contents of a library, and verifies them."""

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
            "--verify",
            help="Read every file and compare it with its checksum; exit 1 if one fails.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the size of the library, its folders, and the changes that 'hasse sync' would make.

    \b
    Examples:
      hasse status
      hasse status --verify
    """
    import json

    from hasse.index.store import Index
    from hasse.service.cli.collection.index_report import print_status, print_verification

    folder = configure(library=library).index
    verification = _verify(folder) if verify else None
    contents = None
    if verification is None or not verification["findings"]:  # a damaged index may not open
        with Index.open(folder, verify="sizes") as opened:
            contents = _status(opened)
    if as_json:
        document = (contents or {}) | {"verification": verification}
        typer.echo(json.dumps(document, indent=2, default=str))
    else:
        if contents is not None:
            print_status(contents)
        if verification is not None:
            print_verification(verification)
    raise typer.Exit(0 if verification is None or verification["ok"] else 1)


def _status(index: Index) -> dict[str, Any]:
    """Return the contents of an index, and how its folders differ by paths and times alone."""
    from hasse.service.writing.folders.catalog_state import CatalogState
    from hasse.service.writing.folders.reach import Reach
    from hasse.service.writing.folders.scan import scan

    locations = index.catalog.locations(index.folder, find_missing=True)
    folders = locations.followed_folders
    scanned = scan(folders, locations=locations, index_folder=index.folder)
    state = CatalogState.of(index, scanned.roots.values())
    indexed = state.files
    unread = [
        file.path for file in state.files_to_hash(scanned) if not state.has_failed_before(file)
    ]
    info = index.info()
    reach = Reach(state, scanned, allow_empty=False)
    missing = [
        row[0]
        for path, row in indexed.items()
        if path not in scanned.files and any(Path(path).is_relative_to(each) for each in folders)
    ]
    gone = sum(reach.is_gone(row.path) for row in missing)
    kept_texts, kept_pictures = index.catalog.count_kept_texts()
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
                "pictures": sum(path.startswith(f"{folder}/") for path in indexed),
            }
            for folder in folders
        ],
        "new": sum(
            path not in indexed and locations.catalog_path(path) not in state.removed_paths
            for path in unread
        ),
        # A file that was written just before it was read has no size yet.
        "changed": sum(any(row.size for row in indexed.get(path, ())) for path in unread),
        "gone": gone,
        "out_of_reach": len(missing) - gone,
        "kept_texts": kept_texts,
        "kept_texts_of": kept_pictures,
        "unreadable": len(state.unreadable_files),
        "text_read": index.catalog.count_with_text("text in the picture"),
    }


def _verify(folder: Path) -> dict[str, Any]:
    """Compare every file of a library with its checksum, and every picture with its bytes."""
    from dataclasses import asdict

    from hasse.index.verify import changed_pictures, verify
    from hasse.service.cli.terminal.progress import progress

    with progress("checking bytes") as report:
        verified = verify(folder, progress=report)
    with progress("checking pictures") as report:
        pictures = changed_pictures(folder, progress=report)
    return asdict(verified) | {"pictures": pictures, "ok": verified.ok and not pictures}
