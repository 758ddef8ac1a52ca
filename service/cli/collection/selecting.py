"""Options of searches: which pictures are searched, and how hits are shown."""

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

from hasse.service.cli.collection.asking import Asked, answer_to
from hasse.service.cli.collection.hits import open_first, paths_of, print_hits, print_paths
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Json
from hasse.service.cli.terminal.preview import Protocol, protocol_of
from hasse.service.cli.terminal.preview import preview as escape_sequence
from hasse.service.cli.terminal.progress import tell
from hasse.service.questions.requests import SearchOptions
from hasse.service.schemas import is_instant

if TYPE_CHECKING:
    from hasse.service.settings import Settings

# Fields of requests that are no options, and the names of options that differ from their fields.
NO_OPTIONS = ("image_ids", "offset", "path_prefix")
FLAGS = {
    "k": ("-n",),
    "taken_from": ("--since",),
    "taken_before": ("--before",),
    "distinct": ("--distinct/--all-captions",),
    "written": ("--written/--by-people",),
}
Within = Annotated[
    Path | None,
    typer.Option("--in", metavar="FOLDER", help="Search only files in this folder and below."),
]
Paths = Annotated[bool, typer.Option("--paths", help="Print the paths of the hits alone.")]
Null = Annotated[
    bool, typer.Option("-0", "--null", help="End each of --paths with a NUL, for xargs -0.")
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the first five hits in the system's viewer.")
]
Preview = Annotated[
    bool,
    typer.Option(
        "--preview",
        help="Show the hits in the terminal: kitty, Ghostty, iTerm2, WezTerm, Konsole.",
    ),
]
_DATE = re.compile(r"\d{4}(-\d\d)?")
_LONG_NAMES = {"taken_from": "since", "taken_before": "before"}


@dataclass(frozen=True, slots=True)
class Shown:
    """How hits are shown, as the options of a command say."""

    open: Open = False
    paths: Paths = False
    null: Null = False
    preview: Preview = False
    as_json: Json = False

    def check(self) -> None:
        """Raise CommandError for options that exclude each other, or that need another."""
        if self.as_json and self.paths:
            raise CommandError("give one of --json and --paths")
        if self.null and not self.paths:
            raise CommandError("-0 needs --paths")
        if self.preview:
            protocol_of(os.environ)


def show_hits(settings: Settings, question: Asked, within: Path | None, how: Shown) -> None:
    """Answer a question, and print its hits."""
    how.check()
    show_answer(answer_to(settings, question), settings, within, how)


def show_answer(answer: Any, settings: Settings, within: Path | None, how: Shown) -> None:
    """Print the hits of an answer."""
    protocol = protocol_of(os.environ) if how.preview else None
    if within is not None and not answer.searched:
        missing = f"there is no folder {within}: check the path"
        other = f"no picture of the library lies in {within} and fits the other options"
        tell(other if within.exists() else missing)
    if how.as_json:
        typer.echo(answer.model_dump_json(indent=2))
    elif how.paths:
        print_paths(paths_of(answer), null=how.null)
    else:
        print_hits(answer)
    if how.open:
        open_first(answer)
    if protocol is not None:
        _preview(paths_of(answer), protocol, settings.picture_pixels)


def _preview(paths: Sequence[str], protocol: Protocol, pixels: int) -> None:
    """Show pictures in the terminal, each below its path."""
    for path in paths:
        typer.echo(path, err=True)
        try:
            sys.stdout.write(escape_sequence(Path(path), protocol, pixels))
        except (OSError, ValueError) as error:
            typer.echo(f"{path} cannot be shown: {error}", err=True)


def selected(fields: dict[str, Any], within: Path | None) -> dict[str, Any]:
    """Return the fields of a request: dates as the service takes them, and the folder."""
    found = {
        name: _instant(name, value)
        if value is not None and is_instant(SearchOptions.model_fields[name])
        else value
        for name, value in fields.items()
        if name in SearchOptions.model_fields
    }
    if within is not None:
        found["path_prefix"] = f"{str(within.resolve()).rstrip('/')}/"
    return fields | found


def _instant(name: str, text: str) -> str:
    """Return a date as the service takes it; raises CommandError for what is none."""
    whole = text + {4: "-01-01", 7: "-01"}.get(len(text), "") if _DATE.match(text) else text
    try:
        found = datetime.fromisoformat(whole)
    except ValueError:
        option = _LONG_NAMES.get(name, name.replace("_", "-"))
        raise CommandError(f"--{option} {text} is no date: write it as 2024-07-31") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
