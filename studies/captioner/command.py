"""`hasse study captioner`: train a captioner from captions alone, and measure what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hasse.lab.commands.long_running import stoppable
from hasse.lab.commands.options import DatasetFolder, Features, Model, ModelOrPhotographs
from hasse.lab.commands.training_report import training_report
from hasse.lab.features.source import with_features
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Device, Json, Workers
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.studies.captioner import DRAWS
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
    Path,
    typer.Option("--out", "-o", metavar="DIR", help="Folder of the captioner."),
]
CaptionerFolder = Annotated[
    Path,
    typer.Option(
        "--captioner", "-c", metavar="DIR", help="A folder of 'hasse study captioner train'."
    ),
]
Draws = Annotated[int, typer.Option(min=1, help="Texts drawn for each picture.")]


@captioner.add
def train(
    *,
    dataset: DatasetFolder,
    out: Out,
    model: Model = None,
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
      hasse study captioner train data/flickr8k --model data/flickr8k-model \\
          --out data/flickr8k-captioner
    """
    from hasse.lab.training.run import TrainingStopped
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
    source = ImageSource(workers=workers, skipped=tell, limits=picture_limits())
    learned = encoder.base or encoder
    request = CaptionerRequest(collection, learned, config, Lexicon.read(wordnet), source)
    with new_model(out):
        prepared = request.prepared(progress)

        def left() -> str:
            return f"{out} holds the best epoch so far, if one was finished"

        with (
            resumable(left),
            progress("training") as bar,
            stoppable(left, TrainingStopped) as stop,
        ):
            report = training_report(bar, config.epochs, lambda found: f"perplexity {found:.3f}")
            trained = request.train(prepared, out, progress, report, stop)
    typer.echo(f"{out}: perplexity {trained.metrics['perplexity']:.3f} in validation")
    typer.echo(f"next: hasse study captioner evaluate {dataset} --captioner {out}", err=True)


@captioner.add
def evaluate(
    *,
    dataset: DatasetFolder,
    captioner: CaptionerFolder,
    model: Model = None,
    split: Annotated[str, typer.Option(help="Which pictures to describe.")] = "test",
    features: Features = None,
    draws: Draws = DRAWS,
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
      hasse study captioner evaluate data/scenes --captioner data/scenes-captioner
    """
    from dataclasses import replace

    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.datasets import load
    from hasse.service.core.device import pick_device
    from hasse.service.writing.image_source import ImageSource
    from hasse.studies.captioner.pipeline import CaptionerEvaluation
    from hasse.studies.captioner.writing import Writer

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


@captioner.add
def describe(
    *,
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="Path of the picture.")],
    captioner: CaptionerFolder,
    model: ModelOrPhotographs = Path("photographs"),
    most: Annotated[int, typer.Option("--most", "-n", min=1, help="Maximum number.")] = 5,
    draws: Draws = DRAWS,
) -> None:
    """Write captions for a picture, with how likely each is true.

    \b
    Example:
      hasse study captioner describe photo.jpg --captioner data/captioner
    """
    from hasse.models.checkpoints import checkpoint, named_models
    from hasse.models.images.decoding import open_file
    from hasse.studies.captioner.writing import Writer

    encoder = checkpoint.load(named_models.find(model))
    writer = Writer.load(encoder, captioner)
    opened = open_file(picture, picture_limits(), encoder.model.preprocessing.resize)
    (point,) = encoder.model.encode_images([opened])
    print_table(
        ("likely", "written caption", ""),
        [
            (
                "" if caption.probability is None else f"{caption.probability:.0%}",
                caption.text,
                "as in training" if caption.in_training else "",
            )
            for caption in writer.describe(point, draws)[:most]
        ],
    )


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
