"""The root of the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hasse.service.cli.collection.add import add, sync
from hasse.service.cli.collection.backup import backup, restore
from hasse.service.cli.collection.check import check
from hasse.service.cli.collection.describe import describe
from hasse.service.cli.collection.duplicates import duplicates
from hasse.service.cli.collection.export import export
from hasse.service.cli.collection.like import like
from hasse.service.cli.collection.ocr import ocr
from hasse.service.cli.collection.remove import remove
from hasse.service.cli.collection.search import search
from hasse.service.cli.collection.status import status
from hasse.service.cli.collection.use import use
from hasse.service.cli.model.lab import lab
from hasse.service.cli.serving.cluster import cluster
from hasse.service.cli.serving.demo import demo
from hasse.service.cli.serving.mcp import mcp
from hasse.service.cli.serving.serve import serve
from hasse.service.cli.study import study
from hasse.service.cli.terminal.command import Query, ShortCommand
from hasse.service.cli.terminal.errors import CommandGroup
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.output import accept_any_character

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


class RootGroup(CommandGroup):
    """The root: its commands, and one line for each that has moved."""

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


app.add(add, ShortCommand)
app.add(sync, ShortCommand)
app.add(status, ShortCommand)
app.add(search, Query)
app.add(like, Query)
app.add(check, ShortCommand)
app.add(describe, ShortCommand)
app.add(serve, ShortCommand)
app.add(use, ShortCommand)
app.add(remove, ShortCommand)
app.add(duplicates, ShortCommand)
app.add(export, Query)
app.add(backup, ShortCommand)
app.add_typer(lab, name="lab")
app.add(restore, ShortCommand, hidden=True)
app.add(ocr, ShortCommand, hidden=True)
app.add(mcp, ShortCommand, hidden=True)
app.add(demo, ShortCommand, hidden=True)
app.add_typer(study, name="study", hidden=True)
app.add_typer(cluster, name="cluster", hidden=True)


def main() -> None:
    """Run the command line and exit with its status."""
    accept_any_character()
    app(prog_name="hasse")
