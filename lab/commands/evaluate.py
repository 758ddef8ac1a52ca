"""`hasse lab evaluate`: measures the retrieval of a model, from images to captions and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hasse.lab.commands.options import DatasetFolder, Features, Model, Split
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Encoding, Json
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

DIRECTIONS = (("caption_retrieval", "captions by image"), ("image_retrieval", "images by caption"))
COLUMNS = (
    ("r1", "R@1"),
    ("r5", "R@5"),
    ("r10", "R@10"),
    ("median", "median"),
    ("mean", "mean"),
    ("mean_average_precision", "mAP"),
)


Against = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A second checkpoint to compare with, named like --model.",
    ),
]
AgainstFeatures = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        show_default="those of --features",
        help="Features for --against, where it has another network or other crops.",
    ),
]
Folds = Annotated[
    int,
    typer.Option(
        min=1,
        help="Measure on that many consecutive blocks and average, as papers do: 5 blocks of "
        "1,000 make COCO's '1k'.",
    ),
]
CaptionsPerImage = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="all",
        help="Measure on the first so many captions of each image. Papers take 5, where a few "
        "of COCO's pictures have more.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the JSON here.")
]


def evaluate(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    against: Against = None,
    split: Split = None,
    features: Features = None,
    against_features: AgainstFeatures = None,
    folds: Folds = 1,
    captions_per_image: CaptionsPerImage = None,
    out: ReportFile = None,
    encoding: Encoding,
    as_json: Json = False,
) -> None:
    """Measure retrieval: R@K in percent, and the rank of the best true item.

    An image's own captions are true of it; for scenes, all captions that hold are. Ties count
    half, so that a model with equal scores for all is no better than chance. Every figure has a
    95 % interval, drawn over images; two models are compared on the same draws.

    \b
    Examples:
      hasse lab evaluate data/scenes
      hasse lab evaluate data/coco --model data/coco-model \\
          --features data/coco-features --captions-per-image 5 --folds 5
      hasse lab evaluate data/coco --model data/order --against data/cosine \\
          --features data/coco-features
    """
    from hasse.lab.pipelines.evaluation import EvaluationRequest
    from hasse.service.core.device import pick_device

    if against_features is not None and against is None:
        raise CommandError(
            f"--against-features names {against_features}, and there is no --against: name a "
            f"second checkpoint, or leave it out"
        )
    request = EvaluationRequest(
        dataset,
        split,
        model,
        against,
        encoding.source(),
        features,
        against_features,
        folds,
        captions_per_image,
    )
    _, result = request.run(pick_device(encoding.device), progress, tell)
    text = json.dumps(result, indent=2)
    if as_json:
        typer.echo(text)
    else:
        _print_result(result)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")


def _print_result(result: Mapping[str, Any]) -> None:
    """Print a table for each model, and for two models one of their difference."""
    other = result.get("against")
    _print_metrics(result, result["model"] if other else "")
    if other:
        typer.echo()
        _print_metrics(other, other["model"])
        typer.echo()
        _print_metrics(other["difference"], "difference", sign="+")
    typer.echo()
    for each in (result, other) if other else (result,):
        low, high = each["intervals"]["rsum"]
        name = f"{each['model']}: " if other else ""
        typer.echo(f"{name}rsum {each['rsum']:.1f} ({low:.1f} to {high:.1f})")
    if other:
        low, high = other["difference"]["intervals"]["rsum"]
        verdict = "within chance" if low <= 0 <= high else "beyond chance"
        rsum = other["difference"]["rsum"]
        typer.echo(f"difference: rsum {rsum:+.1f} ({low:+.1f} to {high:+.1f}), {verdict}")
    folds = f", mean of {result['folds']} blocks" if result["folds"] > 1 else ""
    limit = result["captions_per_image"]
    first = f" (first {limit} of each, {result['captions_left_out']:,} left out)" if limit else ""
    typer.echo(
        f"{count(result['images'], 'image')}, {count(result['captions'], 'caption')}{first}"
        f"{folds}; true by {result['ground_truth']}; 95 % intervals over images"
        + ("" if other else f"; model {result['model']}")
    )
    tied = sum(result[key]["tied"] for key, _ in DIRECTIONS)
    if tied:
        typer.echo(f"queries that end in a tie, which counts half: {tied:,}", err=True)


def _print_metrics(result: Mapping[str, Any], title: str, sign: str = "") -> None:
    rows = []
    for key, label in DIRECTIONS:
        values, bounds = result[key], result["intervals"][key]
        rows.append((label, *(f"{values[name]:{sign}.1f}" for name, _ in COLUMNS)))
        rows.append(
            ("", *(f"{bounds[n][0]:{sign}.1f}…{bounds[n][1]:{sign}.1f}" for n, _ in COLUMNS))
        )
    print_table((title, *(label for _, label in COLUMNS)), rows)
