"""The root of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hasse.service.cli.terminal.command import Query, ShortCommand
from hasse.service.cli.terminal.errors import CommandGroup
from hasse.service.cli.terminal.help_text import Commands, LazyGroup, Listed
from hasse.service.cli.terminal.output import accept_any_character

_COLLECTION, _SERVING = "hasse.service.cli.collection", "hasse.service.cli.serving"
# In the order in which they are listed.
_COMMANDS = {
    "add": Listed(f"{_COLLECTION}.add:add", ShortCommand),
    "sync": Listed(f"{_COLLECTION}.add:sync", ShortCommand),
    "status": Listed(f"{_COLLECTION}.status:status", ShortCommand),
    "search": Listed(f"{_COLLECTION}.search:search", Query),
    "like": Listed(f"{_COLLECTION}.like:like", Query),
    "check": Listed(f"{_COLLECTION}.check:check", ShortCommand),
    "describe": Listed(f"{_COLLECTION}.describe:describe", ShortCommand),
    "serve": Listed(f"{_SERVING}.serve:serve", ShortCommand),
    "use": Listed(f"{_COLLECTION}.use:use", ShortCommand),
    "remove": Listed(f"{_COLLECTION}.remove:remove", ShortCommand),
    "duplicates": Listed(f"{_COLLECTION}.duplicates:duplicates", ShortCommand),
    "export": Listed(f"{_COLLECTION}.export:export", Query),
    "backup": Listed(f"{_COLLECTION}.backup:backup", ShortCommand),
    "lab": Listed("hasse.service.cli.model.lab:lab"),
    "restore": Listed(f"{_COLLECTION}.backup:restore", ShortCommand, hidden=True),
    "ocr": Listed(f"{_COLLECTION}.ocr:ocr", ShortCommand, hidden=True),
    "mcp": Listed(f"{_SERVING}.mcp:mcp", ShortCommand, hidden=True),
    "demo": Listed(f"{_SERVING}.demo:demo", ShortCommand, hidden=True),
    "study": Listed("hasse.service.cli.study:study", hidden=True),
    "cluster": Listed(f"{_SERVING}.cluster:cluster", hidden=True),
}

# What was typed up to 0.2.0, and what it is called now.
_MOVED: dict[tuple[str, ...], str] = {
    ("data", "abstract"): "study photographs abstract",
    ("data", "classes"): "study photographs classes",
    ("data", "texts"): "study photographs texts",
    ("index", "add"): "add",
    ("index", "describe"): "describe --all",
    ("index", "reencode"): "use",
    ("index", "remove"): "remove",
    ("index", "sync"): "sync",
    ("index", "verify"): "status --verify",
    ("index", "watch"): "sync --watch",
    ("entails",): "check",
    ("text-features",): "study photographs features",
    **{
        (name,): f"lab {name}"
        for name in ("data", "embed", "evaluate", "features", "index", "key", "model", "train")
    },
    ("distill",): "study distill",
    ("plot",): "study plot",
    **{(name,): f"study {name}" for name in ("captioner", "entailment", "hypernyms", "transfer")},
}


class RootGroup(CommandGroup, LazyGroup):
    """The root: its commands, and one line for each that has moved."""

    def table(self) -> Mapping[str, Listed]:
        """Return the commands."""
        return _COMMANDS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; say what a moved one is called now, and end with status 2."""
        for words in (tuple(args[:2]), tuple(args[:1])):
            if words in _MOVED:
                was = " ".join(words)
                typer.echo(f"error: 'hasse {was}' is now 'hasse {_MOVED[words]}'", err=True)
                raise typer.Exit(2)
        return super().resolve_command(ctx, args)


app = Commands(
    cls=RootGroup,
    help="""Search your pictures by what they show.

    \b
    To begin:
      hasse add ~/Pictures
      hasse search dog on a beach
      hasse serve

    Results go to standard output, everything else to standard error. There are also
    'restore', 'ocr' (text in pictures), 'mcp' (agents), 'demo' and 'study'.
    """,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"hasse {version('hasse-search')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold the options of all commands."""


def main() -> None:
    """Run the command line and exit with its status."""
    accept_any_character()
    app(prog_name="hasse")
