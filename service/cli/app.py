"""The root of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
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
    "restore": LazyCommand(f"{_COLLECTION}.backup:restore", ShortCommand, hidden=True),
    "ocr": LazyCommand(f"{_COLLECTION}.ocr:ocr", ShortCommand, hidden=True),
    "mcp": LazyCommand(f"{_SERVING}.mcp:mcp", ShortCommand, hidden=True),
    "demo": LazyCommand(f"{_SERVING}.demo:demo", ShortCommand, hidden=True),
    "cluster": LazyCommand(f"{_SERVING}.cluster:cluster", hidden=True),
}

# Packages add groups of commands by entry points: `lab` and `study` in pyproject.toml.
_ENTRY_POINTS = "hasse.commands"


class _RootGroup(CommandGroup, LazyGroup):
    """The root group: the commands above, and those that entry points add."""

    def table(self) -> Mapping[str, LazyCommand]:
        """Return the commands."""
        added = {
            point.name: LazyCommand(point.value)
            for point in entry_points(group=_ENTRY_POINTS)
            if find_spec(".".join(point.module.split(".")[:2])) is not None
        }
        return _COMMANDS | added

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; `help COMMAND` is `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)


app = Commands(
    cls=_RootGroup,
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
