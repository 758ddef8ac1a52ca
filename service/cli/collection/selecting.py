"""Options of searches: those that select pictures, and those that display hits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import FilledQuestion, answer_question
from hasse.service.cli.collection.hits import open_first, paths_of, print_hits, print_paths
from hasse.service.cli.collection.names import resolve_names
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.fields import OptionsOf
from hasse.service.cli.terminal.options import FileOptions
from hasse.service.cli.terminal.preview import Protocol, protocol_of
from hasse.service.cli.terminal.preview import preview as escape_sequence
from hasse.service.cli.terminal.progress import tell
from hasse.service.questions.requests import SearchOptions
from hasse.service.schemas import is_instant

if TYPE_CHECKING:
    from hasse.service.settings import Settings

# Fields of requests without an option, and options that are not called as their field.
_WITHOUT_OPTION = ("image_ids", "offset", "path_prefix")
_FLAGS = {
    "k": ("-n",),
    "taken_from": ("--since",),
    "taken_before": ("--before",),
    "distinct": ("--distinct/--all-captions",),
    "written": ("--written/--by-people",),
}
Within = Annotated[
    str | None,
    typer.Option(
        "--in", metavar="FOLDER", help="Search only a folder: its path, or name in the library."
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the first five hits in the system's viewer.")
]
Preview = Annotated[
    bool,
    typer.Option(
        "--preview", help="Show the hits in the terminal: kitty, Ghostty, iTerm2, WezTerm, Konsole."
    ),
]
_DATE = re.compile(r"\d{4}(-\d\d)?")
_LONG_NAMES = {"taken_from": "since", "taken_before": "before"}


@dataclass(frozen=True, slots=True)
class DisplayOptions(FileOptions):
    """Options of a command that displays hits."""

    open: Open = False
    preview: Preview = False

    def check(self) -> None:
        """Raise CommandError for options that exclude each other or need another."""
        FileOptions.check(self)  # a class with slots has no `super()`
        if self.preview:
            protocol_of(os.environ)


def options_of(request: type[SearchOptions], field: str) -> OptionsOf:
    """Return the options of a request; `field` is an argument."""
    return OptionsOf(request, (field, *_WITHOUT_OPTION), _FLAGS)


def show_hits(
    settings: Settings, question: FilledQuestion, within: str | None, display: DisplayOptions
) -> None:
    """Answer a question, and print its hits."""
    display.check()
    show_answer(answer_question(settings, question), settings, within, display)


def show_answer(
    answer: Any, settings: Settings, within: str | None, display: DisplayOptions
) -> None:
    """Print the hits of an answer."""
    protocol = protocol_of(os.environ) if display.preview else None
    if within is not None and not answer.searched:
        tell(f"no picture of the library lies in {within} and fits the other options")
    if display.as_json:
        typer.echo(answer.model_dump_json(indent=2))
    elif display.paths:
        print_paths(paths_of(answer), null=display.null)
    else:
        print_hits(answer)
    if display.open:
        open_first(answer)
    if protocol is not None:
        _print_previews(paths_of(answer), protocol, settings.picture_pixels)


def _print_previews(paths: Sequence[str], protocol: Protocol, pixels: int) -> None:
    """Show pictures in the terminal, each below its path."""
    for path in paths:
        typer.echo(path, err=True)
        try:
            sys.stdout.write(escape_sequence(Path(path), protocol, pixels))
        except (OSError, ValueError) as error:
            typer.echo(f"{path} cannot be shown: {error}", err=True)


def request_fields(
    settings: Settings, fields: dict[str, Any], within: str | None
) -> dict[str, Any]:
    """Return the fields of a request: options with dates completed, a folder and a place found."""
    dates = {
        name: _complete_date(name, value)
        for name, value in fields.items()
        if value is not None
        and name in SearchOptions.model_fields
        and is_instant(SearchOptions.model_fields[name])
    }
    return resolve_names(settings, fields | dates, within)


def selects(fields: dict[str, Any]) -> bool:
    """Return whether an option selects or sorts pictures, so that no words are needed."""
    names = set(fields) - {"k", "mode", "candidates", "evidence", "versions", "max_violation"}
    return any(fields[name] not in (None, "best") for name in names)


def _complete_date(name: str, text: str) -> str:
    """Return a year, a month or a date as a time in UTC; raises CommandError for other texts."""
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "") if _DATE.match(text) else text
    try:
        date = datetime.fromisoformat(whole)
    except ValueError:
        option = _LONG_NAMES.get(name, name.replace("_", "-"))
        raise CommandError(f"--{option} {text} is no date: write it as 2024-07-31") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).isoformat()
