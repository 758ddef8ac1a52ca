"""The root of the command line."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any

import typer

from hasse.service.cli.collection.describe import describe
from hasse.service.cli.collection.describe_index import describe as describe_index
from hasse.service.cli.collection.duplicates import duplicates
from hasse.service.cli.collection.entails import entails
from hasse.service.cli.collection.export import export
from hasse.service.cli.collection.index import index
from hasse.service.cli.collection.ocr import ocr
from hasse.service.cli.collection.search import search
from hasse.service.cli.collection.text_index import text
from hasse.service.cli.model.lab import lab
from hasse.service.cli.serving.cluster import cluster
from hasse.service.cli.serving.demo import demo
from hasse.service.cli.serving.key import key
from hasse.service.cli.serving.mcp import mcp
from hasse.service.cli.serving.serve import serve
from hasse.service.cli.study import study
from hasse.service.cli.terminal.errors import CommandGroup
from hasse.service.cli.terminal.help_text import Commands, join_lines
from hasse.service.cli.terminal.output import accept_any_character

_MODELS = "Models"
# What was typed up to 0.2.0, and what it is called now.
_MOVED: dict[tuple[str, ...], str] = {
    ("data", "abstract"): "study photographs abstract",
    ("data", "classes"): "study photographs classes",
    ("data", "texts"): "study photographs texts",
    ("text-features",): "study photographs features",
    **{(name,): f"lab {name}" for name in ("data", "features", "train", "evaluate", "embed")},
    ("model",): "lab model",
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
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=join_lines("""Search images by what is true of them.

    \b
    [bold]A first look, then your own pictures[/bold]
      hasse demo
      hasse index add data/mine-index ~/Pictures
      hasse search "a dog on a beach" --index data/mine-index
      hasse serve --index data/mine-index

    Results go to standard output, everything else to standard error.
    """),
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


index.add(describe_index)
index.add(text)
app.add(demo)
app.add_typer(index, name="index")
for command in (search, describe, entails, ocr, duplicates, export, serve, mcp, key):
    app.add(command)
app.add_typer(cluster, name="cluster", hidden=find_spec("ray") is None)
app.add_typer(lab, name="lab", rich_help_panel=_MODELS)
app.add_typer(study, name="study", rich_help_panel=_MODELS)


def main() -> None:
    """Run the command line and exit with its status."""
    accept_any_character()
    app(prog_name="hasse")
