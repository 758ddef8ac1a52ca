"""`hasse describe`: captions written for a picture."""

from __future__ import annotations

from typing import Annotated

import typer

from hasse.models.captioning import DRAWS
from hasse.service.cli.collection.parts import parse_part
from hasse.service.cli.collection.search import ask
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import (
    Captioner,
    Json,
    ServiceDevice,
    ServiceIndex,
    ServiceModel,
)
from hasse.service.cli.terminal.table import print_table


def describe(
    *,
    picture: Annotated[
        str,
        typer.Argument(metavar="PICTURE", help="The path of a picture, or the id of an image."),
    ],
    index: ServiceIndex = None,
    model: ServiceModel = None,
    captioner: Captioner = None,
    k: Annotated[int, typer.Option("--top", "-k", min=1, max=100, help="Most captions.")] = 5,
    draws: Annotated[
        int, typer.Option(min=1, max=1000, help="Texts drawn; more take longer.")
    ] = DRAWS,
    device: ServiceDevice = None,
    as_json: Json = False,
) -> None:
    """Write captions for a picture, with how likely each is true. No service needs to run.

    --model, or else the index, says which model reads the picture; without either it is
    photographs. The built-in models have a captioner; 'hasse study captioner train' makes that of
    another.

    \b
    [bold]Examples[/bold]
      hasse describe photo.jpg --model photographs
      hasse describe 2000001 --index data/scenes-index
    """
    from hasse.models.captioning.writing import Writer
    from hasse.models.images.decoding import open_picture
    from hasse.service.core import describing
    from hasse.service.core.stages import Stages
    from hasse.service.picture_schemas import DescribeOptions
    from hasse.service.runtime import loading

    found = parse_part(picture)
    if isinstance(found, str):
        raise CommandError(
            f"{picture} names no picture: give the path of one, or the id of an image"
        )
    settings = configure(index=index, model=model, captioner=captioner, device=device)
    options = DescribeOptions(k=k, draws=draws)
    if isinstance(found, int):
        answer = ask(
            settings, lambda engine: describing.describe(engine, found, options, Stages()), [found]
        )
    else:
        loaded = loading.model_without_index(settings)
        writer = Writer.of(loaded, settings.captioner)
        opened = open_picture(found, settings.picture_limits, loaded.model.preprocessing.resize)
        answer = describing.describe_without_index(writer, opened, options)
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    print_table(
        ("likely", "violation", "written caption", ""),
        [
            (
                "" if one.probability is None else f"{one.probability:.0%}",
                f"{one.violation:.4f}",
                one.text,
                "as in training" if one.in_training else "",
            )
            for one in answer.captions
        ],
    )
