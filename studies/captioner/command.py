"""`hasse study captioner`: train a captioner from captions alone, and measure what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hasse.lab.commands.long_running import stoppable
from hasse.lab.commands.options import DatasetFolder, Features, Model
from hasse.lab.commands.training_report import training_report
from hasse.lab.features.source import with_features
from hasse.models.captioning import DRAWS
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Captioner, Device, Json, Workers
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.studies.options import Options, with_options

captioner = Commands(help="Learn to write captions for pictures.")

WordNet = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="WordNet's database files, which know parts of speech (Debian: apt install wordnet).",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        show_default="captioner, in the folder of the model",
        help="Where the captioner goes. The model's folder is where services look for it.",
    ),
]


@captioner.add
def train(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    out: Out = None,
    wordnet: WordNet = Path("/usr/share/wordnet"),
    workers: Workers = None,
    options: Options = None,
) -> None:
    """Learn to write from the captions of a dataset; no picture is needed.

    The content of a caption is its own point, so what is learned can be asked for the point of a
    picture. For drawn scenes, whose truth is known, validation pictures also teach how likely a
    written caption is true.

    \b
    Examples:
      hasse study captioner train data/scenes --model scenes \\
          --out data/scenes-captioner
      hasse study captioner train data/flickr8k --model data/flickr8k-model
    """
    from hasse.lab.training.run import TrainingStopped
    from hasse.models.captioning.writing import folder_of
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.datasets import load
    from hasse.service.writing.image_source import ImageSource
    from hasse.studies.captioner.pipeline import CaptionerRequest
    from hasse.studies.captioner.training import CaptionerTraining
    from hasse.studies.new_model import new_model
    from hasse.studies.wordnet.lexicon import Lexicon

    config = with_options(CaptionerTraining(), options)
    collection = load(dataset)
    encoder = checkpoint.load(named_models.find_or_default(model, collection))
    folder = out or folder_of(encoder)
    source = ImageSource(workers=workers, skipped=tell, limits=picture_limits())
    learned = encoder.base or encoder
    request = CaptionerRequest(collection, learned, config, Lexicon.read(wordnet), source)
    with new_model(folder):
        prepared = request.prepared(progress)

        def left() -> str:
            return f"{folder} holds the best epoch so far, if one was finished"

        with (
            resumable(left),
            progress("training") as bar,
            stoppable(left, TrainingStopped) as stop,
        ):
            report = training_report(bar, config.epochs, lambda found: f"perplexity {found:.3f}")
            trained = request.train(prepared, folder, progress, report, stop)
    typer.echo(f"{folder}: perplexity {trained.metrics['perplexity']:.3f} in validation")
    typer.echo(f"next: hasse study captioner evaluate {dataset} --captioner {folder}", err=True)


@captioner.add
def evaluate(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    captioner: Captioner = None,
    split: Annotated[str, typer.Option(help="Which pictures to describe.")] = "test",
    features: Features = None,
    draws: Annotated[int, typer.Option(min=1, help="Texts drawn for each picture.")] = DRAWS,
    most: Annotated[
        int | None,
        typer.Option(min=1, show_default="all", help="Describe no more pictures than these."),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Measure the first caption written for each picture, ranked by the order and as in the paper.

    BLEU and CIDEr compare it with the captions of the picture. Copied is the share that stands
    among the training captions. The rank is that of the picture among all, when the written caption
    is what is searched by. For drawn scenes it is known which captions are true, and which of those
    name a main thing and what it does.

    \b
    Example:
      hasse study captioner evaluate data/scenes --split test
    """
    from dataclasses import replace

    from hasse.models.captioning.writing import Writer
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.datasets import load
    from hasse.service.core.device import pick_device
    from hasse.service.writing.image_source import ImageSource
    from hasse.studies.captioner.pipeline import CaptionerEvaluation

    collection = load(dataset).split(split)
    collection = replace(collection, images=collection.images[:most])
    encoder = checkpoint.load(named_models.find_or_default(model, collection), pick_device(device))
    writer = Writer.load(encoder, captioner)
    source = with_features(
        ImageSource(workers=workers, skipped=tell, limits=picture_limits()), features
    )
    figures = CaptionerEvaluation(writer, collection, source, draws).run(progress)
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
    else:
        _print(figures)


def _print(figures: dict[str, Any]) -> None:
    rows = []
    for name in ("order", "paper", "random likely text"):
        row = figures[name]
        shares = [f"{row[key]:.1f}" for key in ("true", "true_main") if key in row]
        rows.append(
            (
                name,
                *(f"{value:.1f}" for value in row["bleu"]),
                f"{row['cider']:.3f}",
                f"{row['copied']:.1f}",
                f"{row['words']:.1f}",
                f"{row['median_rank_of_picture']:.1f}",
                f"{row['mean_rank_of_picture']:.1f}",
                *shares,
            )
        )
    columns = ["ranked by", *(f"BLEU-{order}" for order in range(1, 5)), "CIDEr", "copied"]
    columns += ["words", "median rank", "mean rank"]
    columns += ["true", "true, main thing"] if "true" in figures["order"] else []
    print_table(columns, rows)
    typer.echo(
        f"{figures['images']:,} pictures, {figures['draws']} draws each, "
        f"{figures['milliseconds']:.0f} ms to write; perplexity {figures['perplexity']:.3f}"
    )
