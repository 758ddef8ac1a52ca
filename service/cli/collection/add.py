"""`hasse add` and `hasse sync`: update a library from folders of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import DryRun, Encoding, Exclude, Library, LibraryModel


def add(
    *,
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders of pictures, or pictures.")
    ],
    library: Library = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="For one folder: a .csv, .tsv or .jsonl with file_name and caption."),
    ] = None,
    exclude: Exclude = None,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Follow links that lead out of the folder.")
    ] = False,
    dry_run: DryRun = False,
    model: LibraryModel = None,
    encoding: Encoding,
) -> None:
    """Add folders of pictures to the library, and make their pictures searchable.

    Captions are the lines of beach.txt beside beach.jpg. The pictures stay where they are. Stop
    it at any time: the same command goes on. A folder of the library is synced.

    \b
    Examples:
      hasse add ~/Pictures
      hasse add ~/Pictures --exclude private/ --dry-run
    """
    from hasse.service.cli.collection.additions import SyncOptions, add_folders
    from hasse.service.writing.folders.scan import ScanOptions

    settings = configure(library=library)
    options = SyncOptions(
        ScanOptions(captions, exclude or [], follow_links),
        model,
        encoding,
        dry_run=dry_run,
        read_text=settings.ocr,
    )
    add_folders(settings.index, folders, options)


def sync(
    *,
    library: Library = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C, and sync after each change.")
    ] = False,
    dry_run: DryRun = False,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty",
            help="Remove missing pictures even if their whole folder is missing, empty or on "
            "another device.",
        ),
    ] = False,
    encoding: Encoding,
) -> None:
    """Update the library from its folders: add, move, change and remove.

    The bytes of a file decide, not its path: a picture that was moved or renamed stays the same,
    and copies are paths of one picture. Captions are read again. Nothing is removed if a
    folder is missing, empty or on another device.

    \b
    Examples:
      hasse sync
      hasse sync --dry-run
      hasse sync --watch
    """
    from hasse.service.cli.collection.additions import SyncOptions, follow, sync_folders

    if watch and dry_run:
        raise CommandError("give one of --watch and --dry-run")
    settings = configure(library=library)
    options = SyncOptions(
        encoding=encoding, allow_empty=allow_empty, dry_run=dry_run, read_text=settings.ocr
    )
    (follow if watch else sync_folders)(settings.index, options)
