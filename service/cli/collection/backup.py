"""`hasse backup` and `hasse restore`: a copy of a library that is whole, made while it is used."""

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
            help="A folder, which takes only what it lacks; or a new file that ends in .tar.",
        ),
    ],
    library: Library = None,
) -> None:
    """Back up the library, also while it is used.

    Every file of the backup is read again at the end. It holds the index and the pictures that
    were sent to the service. Pictures in your folders, and a model of your own, are backed up
    where they are. 'hasse restore' is the way back.

    \b
    Examples:
      hasse backup /backups/library
      hasse backup /backups/library-2026-11-26.tar
    """
    from hasse.index.backup.backup import back_up
    from hasse.service.cli.collection.index_report import size

    folder = configure(library=library).index
    kept = "the backup of before is as it was; the same command goes on"
    with progress("checking the backup") as report, resumable(lambda: kept):
        made = back_up(folder, place, report)
    for picture in made.missing:
        tell(f"left out: {folder / picture} is missing")
    held = made.manifest
    typer.echo(
        f"{count(held.images, 'picture')}, {count(held.captions, 'caption')}: all that was "
        f"answered before {held.moment} (generation {held.generation:,})"
    )
    tell(f"{count(made.copied, 'file')} copied, {len(held.files):,} read again, {size(held.size)}")


def restore(
    *,
    place: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="What 'hasse backup' wrote.")],
    library: Library = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder",
            metavar="OLD=NEW",
            help="Where a folder of pictures lies now; repeat it. Folders below it moved too.",
        ),
    ] = None,
) -> None:
    """Make a library of a backup, where there is none yet.

    Every file is compared with its checksum first. Folders of pictures that lie elsewhere now are
    named here, or found again later by 'hasse add NEW'.

    \b
    Examples:
      hasse restore /backups/library
      hasse restore /backups/library --folder /home/ann=/srv/ann
    """
    from hasse.index.backup.restore import restore as restored
    from hasse.index.store import Index

    target = configure(library=library).index
    moved = dict(_pair(given) for given in folder or ())
    with progress("restoring") as report, resumable(lambda: "nothing was restored"):
        held = restored(place, target.absolute(), moved, report)
    typer.echo(
        f"{target}: {count(held.images, 'picture')}, {count(held.captions, 'caption')}, as of "
        f"{held.moment} (generation {held.generation:,})"
    )
    with Index.open(target, verify="sizes") as index:
        for one in index.locations.followed_folders:
            if not one.is_dir():
                tell(f"not there: {one}; 'hasse add FOLDER' finds its pictures where they are now")


def _pair(given: str) -> tuple[str, str]:
    old, equals, new = given.partition("=")
    if not (old and equals and new):
        raise CommandError(f"--folder {given}: write it as --folder OLD=NEW")
    return os.path.normpath(Path(old).absolute()), os.path.normpath(Path(new).absolute())
