"""`hasse like`: pictures like some and less like others, with something put in or taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked
from hasse.service.cli.collection.parts import parse_part, parse_picture
from hasse.service.cli.collection.selecting import (
    FLAGS,
    NO_OPTIONS,
    Shown,
    Within,
    selected,
    show_hits,
)
from hasse.service.cli.terminal.command import typed
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.fields import OptionsOf
from hasse.service.cli.terminal.options import Place
from hasse.service.questions import table
from hasse.service.questions.requests import SimilarQuery

if TYPE_CHECKING:
    from hasse.service.questions.requests import Part


def like(
    *,
    picture: Annotated[
        str, typer.Argument(metavar="PICTURE", help="Its path, or the id of one in the library.")
    ],
    exchanged: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ WORDS - WORDS",
            help="What to put in, what to take out. Pictures: more like it, less like it.",
        ),
    ] = None,
    within: Within = None,
    fields: Annotated[dict[str, Any], OptionsOf(SimilarQuery, ("image", *NO_OPTIONS), FLAGS)],
    how: Shown,
    place: Place,
) -> None:
    """Find pictures like one, or like several. No service needs to run.

    \b
    Examples:
      hasse like photo.jpg
      hasse like photo.jpg + snow
      hasse like photo.jpg - people
      hasse like photo.jpg + a cat - a dog
      hasse like photo.jpg + another.jpg - third.jpg
    """
    start = parse_picture(picture)
    parts = _exchanged([typed(word) for word in exchanged or []])
    fields = selected(fields, within)
    if any(parts.values()):
        question = Asked(table.SEARCH_LIKE, fields | {"like": start} | parts)
    else:
        question = Asked(table.SEARCH_SIMILAR, fields | {"image": start})
    show_hits(place.settings(), question, within, how)


def _exchanged(words: Sequence[str]) -> dict[str, list[Part]]:
    """Return what is put in and what is taken out, of words such as "+ a cat - a dog".

    Raises:
        CommandError: the first has no sign.
    """
    found: dict[str, list[list[str]]] = {"+": [], "-": []}
    parts: list[str] | None = None
    for word in words:
        sign, rest = (word[0], word[1:]) if word[:1] in found else ("", word)
        if sign:
            parts = []
            found[sign].append(parts)
        if parts is None:
            raise CommandError(f"write + or - before '{word}', as in: + snow - dog")
        parts += [rest] if rest else []
    named: dict[str, list[Part]] = {}
    for sign, texts, pictures in (("+", "plus", "also"), ("-", "minus", "less")):
        some = [parse_part(" ".join(part)) for part in found[sign]]
        named[texts] = [part for part in some if isinstance(part, str)]
        named[pictures] = [part for part in some if not isinstance(part, str)]
    return named
