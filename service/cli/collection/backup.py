"""`hasse backup` and `hasse restore`: a consistent copy of a library, made while it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import Library
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count


def backup(
    *,
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE",
            help="A folder, to which only new files are copied; or a new file that ends in .tar.",
        ),
    ],
    library: Library = None,
) -> None:
    """Back up the library, also while it is used.

    Every file of the backup is read again at the end. It has the index, and the pictures that
    were sent to the service. Back up the pictures in your folders, and a model of your own,
    yourself. 'hasse restore' is the way back.

    \b
    Examples:
      hasse backup /backups/library
      hasse backup /backups/library-2026-11-26.tar
    """
    from hasse.index.backup.backup import back_up
    from hasse.service.cli.collection.index_report import size

    folder = configure(library=library).index
    message = "the backup of before is as it was; the same command goes on"
    with progress("checking the backup") as report, resumable(lambda: message):
        result = back_up(folder, place, report)
    for picture in result.missing:
        tell(f"left out: {folder / picture} is missing")
    manifest = result.manifest
    typer.echo(
        f"{count(manifest.images, 'picture')}, {count(manifest.captions, 'caption')}: all that was "
        f"answered before {manifest.moment} (generation {manifest.generation:,})"
    )
    files = f"{count(result.copied, 'file')} copied, {len(manifest.files):,} read again"
    tell(f"{files}, {size(manifest.size)}")


def restore(
    *,
    place: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="What 'hasse backup' wrote.")],
    library: Library = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder",
            metavar="OLD=NEW",
            help="New path of a folder of pictures and all below it; repeat it.",
        ),
    ] = None,
) -> None:
    """Make a library from a backup, where there is none yet.

    Every file is compared with its checksum first. For folders of pictures that have moved, give
    --folder, or run 'hasse add NEW' later.

    \b
    Examples:
      hasse restore /backups/library
      hasse restore /backups/library --folder /home/ann=/srv/ann
    """
    from hasse.index.backup.restore import restore as restore_index
    from hasse.index.store import Index

    target = configure(library=library).index
    moved = dict(_parse_move(text) for text in folder or ())
    with progress("restoring") as report, resumable(lambda: "nothing was restored"):
        manifest = restore_index(place, target.absolute(), moved, report)
    typer.echo(
        f"{target}: {count(manifest.images, 'picture')}, {count(manifest.captions, 'caption')}, "
        f"as of {manifest.moment} (generation {manifest.generation:,})"
    )
    with Index.open(target, verify="sizes") as index:
        for path in index.locations.followed_folders:
            if not path.is_dir():
                tell(f"not there: {path}; 'hasse add FOLDER' finds its pictures where they are now")


def _parse_move(text: str) -> tuple[str, str]:
    """Return the old and the new path of a text `OLD=NEW`."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise CommandError(f"--folder {text}: write it as --folder OLD=NEW")
    return os.path.normpath(Path(old).absolute()), os.path.normpath(Path(new).absolute())
