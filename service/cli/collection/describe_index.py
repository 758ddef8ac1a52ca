"""`hasse index describe`: captions written for the pictures of an index that have none."""

from __future__ import annotations

from typing import Annotated

import typer

from hasse.models.captioning import DRAWS
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.options import (
    Captioner,
    IndexFolder,
    ServiceDevice,
    ServiceModel,
)
from hasse.service.cli.terminal.progress import progress
from hasse.service.plural import count


def describe(
    *,
    index: IndexFolder,
    model: ServiceModel = None,
    captioner: Captioner = None,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Texts drawn for a picture.")] = DRAWS,
    device: ServiceDevice = None,
) -> None:
    """Write a caption for each picture of an index that has none by people.

    They are marked as written by a model. Searches for captions find them where the collection has
    none of people, or where they are asked to. Stopped, the same command goes on; with another
    captioner it replaces what the former one wrote.

    \b
    [bold]Example[/bold]
      hasse index describe data/mine-index
    """
    from hasse.models.captioning.writing import Writer
    from hasse.service.cli.collection.additions import merge_small
    from hasse.service.pipelines.describing import describe_index
    from hasse.service.runtime import loading

    settings = configure(library=index, model=model, captioner=captioner, device=device)
    loaded, opened = loading.model_and_index(settings, with_pictures=False)
    with opened:
        writer = Writer.of(loaded, settings.captioner)
        kept = f"{index} keeps what is written; the same command goes on from there"
        with progress("writing captions") as report, resumable(lambda: kept):
            added = describe_index(opened, writer, draws=draws, report=report)
        merge_small(opened)
        typer.echo(f"{index}: {count(added, 'caption')} written; generation {opened.generation}")
