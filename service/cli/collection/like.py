"""`hasse like`: pictures like one, and with something exchanged."""

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
from hasse.service.cli.terminal.fields import options_from
from hasse.service.cli.terminal.options import Place
from hasse.service.questions import table
from hasse.service.questions.requests import SimilarQuery

if TYPE_CHECKING:
    from hasse.service.questions.requests import Part


@options_from(SimilarQuery, without=("image", *NO_OPTIONS), flags=FLAGS)
def like(
    *,
    picture: Annotated[
        str, typer.Argument(metavar="PICTURE", help="Its path, or the id of one in the library.")
    ],
    exchanged: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ WORDS - WORDS", help="What to put in, and what it takes the place of."
        ),
    ] = None,
    within: Within = None,
    fields: dict[str, Any],
    how: Shown,
    place: Place,
) -> None:
    """Find pictures like one. No service needs to run.

    \b
    Examples:
      hasse like photo.jpg
      hasse like photo.jpg + snow
      hasse like photo.jpg + a cat - a dog
    """
    start = parse_picture(picture)
    plus, minus = _exchanged([typed(word) for word in exchanged or []])
    fields = selected(fields, within)
    if plus or minus:
        parts = {"like": start, "plus": plus, "minus": minus}
        question = Asked(table.SEARCH_LIKE, fields | parts)
    else:
        question = Asked(table.SEARCH_SIMILAR, fields | {"image": start})
    show_hits(place.settings(), question, within, how)


def _exchanged(words: Sequence[str]) -> tuple[list[Part], list[Part]]:
    """Return what is put in and what is taken out, of words such as "+ a cat - a dog".

    Raises:
        CommandError: the first has no sign, or nothing is put in.
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
    plus, minus = ([parse_part(" ".join(part)) for part in found[sign]] for sign in "+-")
    if minus and not plus:
        raise CommandError("say what takes the place of what you take out, as in: + snow - dog")
    return plus, minus
