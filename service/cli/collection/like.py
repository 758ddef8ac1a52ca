"""`hasse like`: finds pictures like one, with something put in or taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection import selecting
from hasse.service.cli.collection.asking import FilledQuestion
from hasse.service.cli.collection.parts import parse_part, parse_picture
from hasse.service.cli.terminal.command import restore_dash
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import LibraryOptions
from hasse.service.questions import table
from hasse.service.questions.requests import SimilarQuery

if TYPE_CHECKING:
    from hasse.service.questions.requests import Part


def like(
    *,
    picture: Annotated[
        str, typer.Argument(metavar="PICTURE", help="Its path, or the id of one in the library.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ WORDS - WORDS",
            help="What to put in, what to take out. Pictures: more like it, less like it.",
        ),
    ] = None,
    within: selecting.Within = None,
    fields: Annotated[dict[str, Any], selecting.options_of(SimilarQuery, "image")],
    display: selecting.DisplayOptions,
    library: LibraryOptions,
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
    parts = _parse_changes([restore_dash(word) for word in changes or []])
    fields = selecting.request_fields(library.settings(), fields, within)
    if any(parts.values()):
        question = FilledQuestion(table.SEARCH_LIKE, fields | {"like": start} | parts)
    else:
        question = FilledQuestion(table.SEARCH_SIMILAR, fields | {"image": start})
    selecting.show_hits(library.settings(), question, within, display)


def _parse_changes(words: Sequence[str]) -> dict[str, list[Part]]:
    """Return the fields of a request for words such as "+ a cat - a dog".

    Raises:
        CommandError: the first word has no sign.
    """
    phrases: dict[str, list[list[str]]] = {"+": [], "-": []}
    phrase: list[str] | None = None
    for word in words:
        sign, rest = (word[0], word[1:]) if word[:1] in phrases else ("", word)
        if sign:
            phrase = []
            phrases[sign].append(phrase)
        if phrase is None:
            raise CommandError(f"write + or - before '{word}', as in: + snow - dog")
        phrase += [rest] if rest else []
    fields: dict[str, list[Part]] = {}
    for sign, texts, pictures in (("+", "plus", "also"), ("-", "minus", "less")):
        parts = [parse_part(" ".join(phrase)) for phrase in phrases[sign]]
        fields[texts] = [part for part in parts if isinstance(part, str)]
        fields[pictures] = [part for part in parts if not isinstance(part, str)]
    return fields
