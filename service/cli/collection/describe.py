"""`hasse describe`: captions written for a picture."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked, answer_to
from hasse.service.cli.collection.parts import parse_part
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.fields import options_from
from hasse.service.cli.terminal.options import (
    Captioner,
    Json,
    Library,
    ServiceDevice,
    ServiceModel,
)
from hasse.service.cli.terminal.table import print_table
from hasse.service.questions import table
from hasse.service.questions.requests import DescribeQuery


@options_from(DescribeQuery, without=("image_id",), flags={"k": ("--top", "-k")})
def describe(
    *,
    picture: Annotated[
        str,
        typer.Argument(metavar="PICTURE", help="The path of a picture, or the id of an image."),
    ],
    library: Library = None,
    model: ServiceModel = None,
    captioner: Captioner = None,
    fields: dict[str, Any],
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
      hasse describe 2000001 --library data/mine
    """

    from hasse.models.captioning.writing import Writer
    from hasse.models.images.decoding import open_picture
    from hasse.service.errors import validated
    from hasse.service.questions import describe as describing
    from hasse.service.runtime import loading

    found = parse_part(picture)
    if isinstance(found, str):
        raise CommandError(
            f"{picture} names no picture: give the path of one, or the id of an image"
        )
    settings = configure(library=library, model=model, captioner=captioner, device=device)
    fields |= {"image_id": found}
    if isinstance(found, int):
        answer = answer_to(settings, Asked(table.DESCRIBE, fields))
    else:
        request = validated(DescribeQuery, fields)
        loaded = loading.model_without_index(settings)
        writer = Writer.of(loaded, settings.captioner)
        opened = open_picture(found, settings.picture_limits, loaded.model.preprocessing.resize)
        answer = describing.without_index(writer, opened, request)
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
