"""`hasse search`: pictures by words."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked
from hasse.service.cli.collection.parts import checked_text, names_picture, text_or_picture
from hasse.service.cli.collection.saved import run_saved, save_search
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
from hasse.service.questions.requests import PARTS_MAXIMUM, ImageQuery


def search(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", show_default=False, help="What the pictures show."),
    ] = None,
    all_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART", help="Instead of WORDS: show all of each PART, words or a picture."
        ),
    ] = None,
    within: Within = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep the search: '@NAME' runs it, '@' lists all."),
    ] = None,
    fields: Annotated[dict[str, Any], OptionsOf(ImageQuery, ("caption", *NO_OPTIONS), FLAGS)],
    how: Shown,
    place: Place,
) -> None:
    """Find the pictures that show or say what the words do. No service needs to run.

    A word after a dash is left out of the pictures.

    \b
    Examples:
      hasse search dog on a beach
      hasse search beach -people --since 2024-07
      hasse search a dog --in ~/Pictures/2024 --open
      hasse search a child -n 100 --paths
      hasse search beach -people --save beach; hasse search @beach
    """
    if words and words[0].startswith("@"):
        run_saved(place.settings(), " ".join(words)[1:].strip(), how)
        return
    if any(word.strip() for word in words or []) == bool(all_of):
        raise CommandError("say what the pictures show, as in 'hasse search dog on a beach'")
    fields = selected(fields, within)
    if all_of:
        if len(all_of) > PARTS_MAXIMUM:
            raise CommandError(f"give at most {PARTS_MAXIMUM} parts")
        parts = [text_or_picture(typed(text)) for text in all_of]
        question = Asked(table.SEARCH_ALL_OF, fields | {"all_of": parts})
    else:
        question = Asked(table.SEARCH_IMAGES, fields | {"caption": _caption(words or [])})
    if save is None:
        show_hits(place.settings(), question, within, how)
    else:
        save_search(place.settings(), save, question, within, how)


def _caption(words: list[str]) -> str:
    """Return the words as one text; raises CommandError where one is a picture."""
    picture = next((word for word in words if names_picture(word)), None)
    if picture is not None:
        raise CommandError(
            f"{picture} is a picture: 'hasse like {picture}' finds pictures like it, and "
            f"'hasse check {picture} WORDS' tells whether words are true of it"
        )
    return checked_text(" ".join(map(typed, words)))
