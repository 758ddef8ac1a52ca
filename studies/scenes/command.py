"""`hasse study scenes`: make and measure the captions of a model of drawn scenes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Json
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

scenes = Commands(help="Make and measure the captions that a model composes for drawn scenes.")

ScenesModel = Annotated[
    Path,
    typer.Option("--model", "-m", metavar="DIR", help="The calibrated model, or a built-in one."),
]


@scenes.add
def phrases(
    *,
    model: ScenesModel,
    pictures: Annotated[
        int, typer.Option(min=100, help="Scenes of the training split that set the limits.")
    ] = 1000,
) -> None:
    """Let a model of drawn scenes compose captions of phrases.

    A person, an action or a place counts where few of the scenes that do not show it are nearer to
    it. The phrases go to the folder `captioner` of the model.

    \b
    Example:
      hasse study scenes phrases --model data/scenes-model
    """
    from hasse.models.captioning.phrases import folder_of
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.studies.scenes.captions import make_phrases

    loaded = checkpoint.load(named_models.find(model))
    with progress("encoding") as report:
        make_phrases(loaded, pictures, report)
    typer.echo(f"{folder_of(loaded)}: limits by {count(pictures, 'scene')}")


@scenes.add
def evaluate(
    *,
    model: ScenesModel = Path("scenes"),
    pictures: Annotated[int, typer.Option(min=1, help="Scenes of the test split.")] = 1000,
    as_json: Json = False,
) -> None:
    """Measure how many captions are true of scenes that the model has not seen.

    \b
    Example:
      hasse study scenes evaluate --pictures 100
    """
    from dataclasses import asdict

    from hasse.models.captioning.phrases import PhraseWriter
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.studies.scenes.captions import measure

    writer = PhraseWriter(checkpoint.load(named_models.find(model)))
    with progress("encoding") as report:
        figures = measure(writer, pictures, report)
    if as_json:
        typer.echo(json.dumps(asdict(figures), indent=2))
        return
    shares = (figures.described, figures.true, figures.main_thing, figures.all_true)
    print_table(
        ("scenes", "described", "first true", "first true, main thing", "all true"),
        [(str(figures.scenes), *(f"{share:.1f} %" for share in shares))],
    )
