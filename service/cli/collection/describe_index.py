"""`hasse index describe`: captions written for all pictures of an index that have none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from models.captioning import DRAWS
from service.cli.terminal.configuration import configure
from service.cli.terminal.errors import CommandError, resumable
from service.cli.terminal.options import (
    Captioner,
    IndexFolder,
    ServiceDevice,
    ServiceModel,
)
from service.cli.terminal.progress import progress
from service.plural import count


def describe(
    *,
    index: IndexFolder,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="Where the captions go: .jsonl."),
    ],
    model: ServiceModel = None,
    captioner: Captioner = None,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Texts drawn for a picture.")] = DRAWS,
    device: ServiceDevice = None,
) -> None:
    """Write a caption for each picture that has none, into a file of its own.

    Each line says which captioner wrote it and how likely it is true. The index does not change. To
    search by these captions, choose those that you trust and give the file to 'hasse index add' as
    --captions. Stopped, the same command goes on.

    \b
    [bold]Examples[/bold]
      hasse index describe data/mine-index --out written.jsonl
      hasse index add data/mine-index ~/Pictures --captions written.jsonl
    """
    from service.pipelines.describing import describe_index
    from service.runtime import loading

    settings = configure(index=index, model=model, captioner=captioner, device=device)
    loaded, opened = loading.model_and_index(settings, with_pictures=False)
    with opened:
        writer = loading.writer(settings, loaded)
        if writer is None:
            raise CommandError(
                f"there is no captioner for the model {loaded.name}: train one by 'hasse "
                f"captioner train', and name it with --captioner"
            )
        kept = f"{out} keeps what is written; the same command goes on from there"
        with progress("writing captions") as report, resumable(lambda: kept):
            done = describe_index(opened, writer, out, draws=draws, report=report)
    typer.echo(f"{out}: {count(done, 'caption')} written")
