"""The root of the command line: every command, in the order in which one needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.collection.entails import entails
from service.cli.collection.index import index
from service.cli.collection.search import search
from service.cli.model.data import data
from service.cli.model.distill import distill
from service.cli.model.entailment import entailment
from service.cli.model.evaluate import evaluate
from service.cli.model.features import features
from service.cli.model.hypernyms import hypernyms
from service.cli.model.train import train
from service.cli.serving.demo import demo
from service.cli.serving.key import key
from service.cli.serving.serve import serve
from service.cli.terminal.errors import Shell
from service.cli.terminal.help_text import Commands, advice

app = Commands(
    cls=Shell,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=advice("""Search images by what is true of them.

    \b
    [bold]A first look[/bold]: a small collection is drawn, indexed and served
      hasse demo

    \b
    [bold]Your own pictures[/bold]
      hasse index add data/mine-index ~/Pictures
      hasse search "a dog on a beach" --index data/mine-index

    \b
    [bold]A model of your own, from captioned pictures[/bold]
      hasse data import folder ~/Pictures --out data/mine
      hasse features data/mine --download-weights --out data/mine-features
      hasse train data/mine --features data/mine-features --out data/mine-model
      hasse index build data/mine --model data/mine-model --out data/mine-index
      hasse search "a dog on a beach" --index data/mine-index
      hasse serve --index data/mine-index

    Each command explains itself: hasse COMMAND --help. Results go to standard output, all else
    to standard error.
    """),
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"hasse {version('hasse')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold what is common to all commands."""


app.add(demo)
app.add_typer(data, name="data")
app.add(features)
app.add(distill)
app.add(train)
app.add(evaluate)
app.add_typer(index, name="index")
app.add(search)
app.add(entails)
app.add(serve)
app.add(key)
app.add_typer(hypernyms, name="hypernyms")
app.add_typer(entailment, name="entailment")


def main() -> None:
    """Run the command line and exit with its status."""
    app(prog_name="hasse")
