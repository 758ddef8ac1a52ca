"""`hasse use`: brings a library over to another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.options import Encoding, Library
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count


def use(
    *,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Its name, as 'hasse lab model list' shows it.")
    ],
    library: Library = None,
    leave_out_missing: Annotated[
        bool,
        typer.Option(
            "--leave-out-missing", help="Go on where a whole folder of pictures is missing."
        ),
    ] = False,
    encoding: Encoding,
) -> None:
    """Bring the library over to another model: read its pictures and captions anew.

    One that cannot be read is removed with its captions, with one line that says why. Until all
    is done, searches go by the old model, and nobody else can write. Stop it at any time: the
    same command goes on.

    \b
    Example:
      hasse use clip
    """
    from hasse.models.checkpoints.named_models import find
    from hasse.service.cli.collection.additions import loaded, require_no_demo
    from hasse.service.writing import indexing

    require_no_demo(str(model))
    folder = configure(library=library).index
    checkpoint = loaded(find(model), encoding.device)
    kept = "the library is as it was; the same command goes on with what is missing"
    with progress("encoding") as report, resumable(lambda: kept):
        done = indexing.reencode(
            folder, checkpoint, encoding.source(), report, leave_out_missing=leave_out_missing
        )
    if done is None:
        typer.echo(f"the library uses the model '{checkpoint.name}' already")
        return
    left_out = f"; {count(done.left_out, 'picture')} left out" if done.left_out else ""
    typer.echo(f"{count(done.images, 'picture')} read by '{checkpoint.name}'{left_out}")
    tell("a service that runs on it answers by the old model until it is started again")
