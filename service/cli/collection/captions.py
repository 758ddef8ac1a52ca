"""`hasse lab captions`: finds captions that are true of pictures or follow from captions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection import selecting
from hasse.service.cli.collection.asking import FilledQuestion
from hasse.service.cli.collection.parts import parse_part
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Json, LibraryOptions
from hasse.service.questions import table
from hasse.service.questions.requests import PARTS_MAXIMUM, CaptionQuery


def captions(
    *,
    parts: Annotated[
        list[str], typer.Argument(metavar="PART", help="A picture, the id of one, or a caption.")
    ],
    within: selecting.Within = None,
    fields: Annotated[dict[str, Any], selecting.options_of(CaptionQuery, "image")],
    as_json: Json = False,
    library: LibraryOptions,
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
    parsed = [parse_part(text) for text in parts]
    fields = selecting.request_fields(library.settings(), fields, within)
    if len(parsed) == 1 and not isinstance(parsed[0], str):
        question = FilledQuestion(table.SEARCH_CAPTIONS, fields | {"image": parsed[0]})
    else:
        question = FilledQuestion(table.SEARCH_COMMON, fields | {"common": parsed})
    selecting.show_hits(
        library.settings(), question, within, selecting.DisplayOptions(as_json=as_json)
    )
