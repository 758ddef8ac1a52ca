"""The root of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hasse.service.cli.terminal.command import Query, ShortCommand
from hasse.service.cli.terminal.errors import CommandGroup
from hasse.service.cli.terminal.help_text import Commands, LazyCommand, LazyGroup
from hasse.service.cli.terminal.output import accept_any_character

_COLLECTION, _SERVING = "hasse.service.cli.collection", "hasse.service.cli.serving"
# In the order of the help text.
_COMMANDS = {
    "add": LazyCommand(f"{_COLLECTION}.add:add", ShortCommand),
    "sync": LazyCommand(f"{_COLLECTION}.add:sync", ShortCommand),
    "status": LazyCommand(f"{_COLLECTION}.status:status", ShortCommand),
    "search": LazyCommand(f"{_COLLECTION}.search:search", Query),
    "like": LazyCommand(f"{_COLLECTION}.like:like", Query),
    "check": LazyCommand(f"{_COLLECTION}.check:check", ShortCommand),
    "describe": LazyCommand(f"{_COLLECTION}.describe:describe", ShortCommand),
    "serve": LazyCommand(f"{_SERVING}.serve:serve", ShortCommand),
    "use": LazyCommand(f"{_COLLECTION}.use:use", ShortCommand),
    "remove": LazyCommand(f"{_COLLECTION}.remove:remove", ShortCommand),
    "duplicates": LazyCommand(f"{_COLLECTION}.duplicates:duplicates", ShortCommand),
    "export": LazyCommand(f"{_COLLECTION}.export:export", Query),
    "backup": LazyCommand(f"{_COLLECTION}.backup:backup", ShortCommand),
    "lab": LazyCommand("hasse.service.cli.model.lab:lab"),
    "restore": LazyCommand(f"{_COLLECTION}.backup:restore", ShortCommand, hidden=True),
    "ocr": LazyCommand(f"{_COLLECTION}.ocr:ocr", ShortCommand, hidden=True),
    "mcp": LazyCommand(f"{_SERVING}.mcp:mcp", ShortCommand, hidden=True),
    "demo": LazyCommand(f"{_SERVING}.demo:demo", ShortCommand, hidden=True),
    "study": LazyCommand("hasse.service.cli.study:study", hidden=True),
    "cluster": LazyCommand(f"{_SERVING}.cluster:cluster", hidden=True),
}

# Commands of 0.2.0, and their names now.
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
    """The root group. It names the new place of a command that has moved."""

    def table(self) -> Mapping[str, LazyCommand]:
        """Return the commands."""
        return _COMMANDS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; `help COMMAND` is `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; for one that has moved, print its new name and end with status 2."""
        for words in (tuple(args[:2]), tuple(args[:1])):
            if words in _MOVED:
                old = " ".join(words)
                typer.echo(f"error: 'hasse {old}' is now 'hasse {_MOVED[words]}'", err=True)
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


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"hasse {version('hasse-search')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Declare the options of `hasse` itself."""


def main() -> None:
    """Run the command line and exit with its status."""
    accept_any_character()
    app(prog_name="hasse")
