"""The root of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from hasse.service.cli.collection.describe import describe
from hasse.service.cli.collection.describe_index import describe as describe_index
from hasse.service.cli.collection.entails import entails
from hasse.service.cli.collection.index import index
from hasse.service.cli.collection.search import search
from hasse.service.cli.model.data import data
from hasse.service.cli.model.embed import embed
from hasse.service.cli.model.evaluate import evaluate
from hasse.service.cli.model.features import features
from hasse.service.cli.model.model import model
from hasse.service.cli.model.train import train
from hasse.service.cli.serving.cluster import cluster
from hasse.service.cli.serving.demo import demo
from hasse.service.cli.serving.key import key
from hasse.service.cli.serving.serve import serve
from hasse.service.cli.terminal.errors import CommandGroup
from hasse.service.cli.terminal.help_text import Commands, join_lines
from hasse.service.cli.terminal.output import accept_any_character
from hasse.studies.captioner.command import captioner
from hasse.studies.distillation.command import distill
from hasse.studies.entailment.command import entailment
from hasse.studies.hypernyms.command import hypernyms
from hasse.studies.photographs.text_features_command import text_features
from hasse.studies.tables.plot_command import plot
from hasse.studies.transfer.command import transfer

_COLLECTION = "Search and serve a collection"
_MODEL = "Make a model"

app = Commands(
    cls=CommandGroup,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=join_lines("""Search images by what is true of them.

    \b
    [bold]A first look[/bold]: draw, index and serve a small collection
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

    To learn about a command, run hasse COMMAND --help. Results go to standard output, everything
    else to standard error.
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
app.add_typer(index, name="index", rich_help_panel=_COLLECTION)
app.add(demo, _COLLECTION)
app.add(search, _COLLECTION)
app.add(describe, _COLLECTION)
app.add(entails, _COLLECTION)
app.add(serve, _COLLECTION)
app.add_typer(cluster, name="cluster", rich_help_panel=_COLLECTION)
app.add(key, _COLLECTION)
app.add_typer(data, name="data", rich_help_panel=_MODEL)
app.add_typer(model, name="model", rich_help_panel=_MODEL)
app.add(features, _MODEL)
app.add(text_features, _MODEL)
app.add(train, _MODEL)
app.add(distill, _MODEL)
app.add(evaluate, _MODEL)
app.add(embed, _MODEL)
app.add(transfer, _MODEL)
app.add(plot, _MODEL)
app.add_typer(captioner, name="captioner", rich_help_panel=_MODEL)
app.add_typer(hypernyms, name="hypernyms", rich_help_panel=_MODEL)
app.add_typer(entailment, name="entailment", rich_help_panel=_MODEL)


def main() -> None:
    """Run the command line and exit with its status."""
    accept_any_character()
    app(prog_name="hasse")
