"""`hasse search`: finds pictures by words."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection import selecting
from hasse.service.cli.collection.asking import FilledQuestion
from hasse.service.cli.collection.parts import is_picture_name, parse_text, parse_text_or_picture
from hasse.service.cli.collection.saved import run_saved, save_search
from hasse.service.cli.terminal.command import restore_dash
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import LibraryOptions
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
    within: selecting.Within = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Save the search: '@NAME' runs it, '@' lists all."),
    ] = None,
    fields: Annotated[dict[str, Any], selecting.options_of(ImageQuery, "caption")],
    display: selecting.DisplayOptions,
    library: LibraryOptions,
) -> None:
    """Find the pictures that show or say what the words do.

    A word after a dash is left out. Without words, the other options select.

    \b
    Examples:
      hasse search dog on a beach
      hasse search beach -people --since 2024-07
      hasse search --in Italy --rating 4 --sort newest --open
      hasse search a child -n 100 --paths
      hasse search beach -people --save beach; hasse search @beach
    """
    if words and words[0].startswith("@"):
        run_saved(library.settings(), " ".join(words)[1:].strip(), display)
        return
    has_words = any(word.strip() for word in words or [])
    selects = within is not None or selecting.selects(fields)
    if has_words == bool(all_of) and (has_words or not selects):
        raise CommandError("say what the pictures show, as in 'hasse search dog on a beach'")
    settings = library.settings()
    fields = selecting.request_fields(settings, fields, within)
    if all_of:
        if len(all_of) > PARTS_MAXIMUM:
            raise CommandError(f"give at most {PARTS_MAXIMUM} parts")
        parts = [parse_text_or_picture(restore_dash(text)) for text in all_of]
        question = FilledQuestion(table.SEARCH_ALL_OF, fields | {"all_of": parts})
    else:
        words_fields = {"caption": _caption(words or [])} if has_words else {}
        question = FilledQuestion(table.SEARCH_IMAGES, fields | words_fields)
    if save is None:
        selecting.show_hits(settings, question, within, display)
    else:
        save_search(settings, save, question, within, display)


def _caption(words: list[str]) -> str:
    """Return the words as one text; raises CommandError if one is the name of a picture."""
    picture = next((word for word in words if is_picture_name(word)), None)
    if picture is not None:
        raise CommandError(
            f"{picture} is a picture: 'hasse like {picture}' finds pictures like it, and "
            f"'hasse check {picture} WORDS' tells whether words are true of it"
        )
    return parse_text(" ".join(map(restore_dash, words)))
