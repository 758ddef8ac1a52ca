"""`hasse lab captions`: captions of a library that are true of pictures or follow from captions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked
from hasse.service.cli.collection.parts import parse_part
from hasse.service.cli.collection.selecting import (
    FLAGS,
    NO_OPTIONS,
    Shown,
    Within,
    selected,
    show_hits,
)
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.fields import OptionsOf
from hasse.service.cli.terminal.options import Json, Place
from hasse.service.questions import table
from hasse.service.questions.requests import PARTS_MAXIMUM, CaptionQuery


def captions(
    *,
    parts: Annotated[
        list[str],
        typer.Argument(metavar="PART", help="A picture, the id of one, or a caption."),
    ],
    within: Within = None,
    fields: Annotated[dict[str, Any], OptionsOf(CaptionQuery, ("image", *NO_OPTIONS), FLAGS)],
    as_json: Json = False,
    place: Place,
) -> None:
    """Find the captions of the library that are true of every PART.

    \b
    Examples:
      hasse lab captions photo.jpg
      hasse lab captions one.jpg another.jpg
      hasse lab captions "a poodle" "a cat"
    """
    if len(parts) > PARTS_MAXIMUM:
        raise CommandError(f"give at most {PARTS_MAXIMUM} parts")
    named = [parse_part(text) for text in parts]
    fields = selected(fields, within)
    if len(named) == 1 and not isinstance(named[0], str):
        question = Asked(table.SEARCH_CAPTIONS, fields | {"image": named[0]})
    else:
        question = Asked(table.SEARCH_COMMON, fields | {"common": named})
    show_hits(place.settings(), question, within, Shown(as_json=as_json))
