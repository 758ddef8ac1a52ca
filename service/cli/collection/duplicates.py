"""`hasse duplicates`: lists files of the same picture, and bursts of pictures."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.collection.hits import print_paths
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import FileOptions, Library
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.service.pipelines.duplicates import Group, GroupFile

_SAME = {"bytes": "same bytes", "picture": "same picture", "burst": "burst"}


def duplicates(
    *,
    pictures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PICTURE|ID]...", help="With --not: pictures of one group."),
    ] = None,
    are_different: Annotated[
        bool, typer.Option("--not", help="Remember that these pictures are not the same.")
    ] = False,
    library: Library = None,
    bursts: Annotated[
        bool, typer.Option("--bursts", help="List bursts too: near in time, nearly the same.")
    ] = False,
    within: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Maximum of seconds between pictures of a burst."),
    ] = 10.0,
    display: FileOptions,
) -> None:
    """List files of the same picture, the largest first. Nothing is deleted.

    Files are of the same picture if they have the same bytes, or differ in size, format,
    compression, brightness or rotation. Searches show such versions as one hit from then on.
    --paths prints the files that can go: the first of their group has their pixels, date, place and
    texts. A link or a second mount is no copy. Look before you delete them.

    \b
    Examples:
      hasse duplicates
      hasse duplicates --bursts --within 3
      hasse duplicates --not form-1.png form-2.png
      hasse duplicates --paths -0 | xargs -0 trash
    """
    from hasse.index.kernels.threads import Workers
    from hasse.index.store import Index
    from hasse.service.cli.collection.remove import find_pictures
    from hasse.service.pipelines import duplicates as pipeline

    display.check()
    if bool(pictures) != are_different or len(pictures or ()) == 1:
        raise CommandError("name two pictures or more with --not, and none without it")
    settings = configure(library=library)
    with Index.open(settings.index, verify="sizes") as index:
        if pictures:
            pipeline.note_different(index, find_pictures(index, pictures)[1])
        message = "what was found is kept; the same command goes on from there"
        with resumable(lambda: message):
            with progress("reading pictures") as report:
                pipeline.hash_pictures(index, settings.picture_limits, report)
            with progress("comparing pictures") as report:
                pipeline.find_versions(index, settings.picture_limits, report)
        groups = pipeline.same_files(index)
        if bursts:
            workers = Workers()
            groups += pipeline.bursts(index, workers, within)
            workers.close()
    if display.as_json:
        import json

        typer.echo(json.dumps([asdict(group) for group in groups], indent=2))
    elif display.paths:
        spare = (file.path for group in groups for file in group.files if file.spare)
        print_paths(spare, null=display.null)
    else:
        _print_groups(groups)


def _print_groups(groups: list[Group]) -> None:
    rows = [
        [str(number) if at == 0 else "", _SAME[group.same] if at == 0 else "", *_cells(file)]
        for number, group in enumerate(groups, start=1)
        for at, file in enumerate(group.files)
    ]
    if rows:
        print_table(["group", "what", "pixels", "kB", "path"], rows)
    files = sum(len(group.files) - 1 for group in groups)
    typer.echo(f"{count(len(groups), 'group')}; {count(files, 'file')} beside the first", err=True)


def _cells(file: GroupFile) -> list[str]:
    size = f"{file.width} x {file.height}" if file.width and file.height else ""
    return [size, f"{file.bytes / 1000:,.0f}", file.path]
