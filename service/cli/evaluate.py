"""`hasse evaluate`: how well a model finds what is true, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import BatchSize, DatasetFolder, Device, Features, Json, Model, Workers
from service.cli.progress import progress
from service.cli.shell import Mistake
from service.cli.table import print_table

if TYPE_CHECKING:
    from models.evaluation import Evaluation

DIRECTIONS = (("caption_retrieval", "captions by image"), ("image_retrieval", "images by caption"))
COLUMNS = (
    ("r1", "R@1"),
    ("r5", "R@5"),
    ("r10", "R@10"),
    ("median", "median"),
    ("mean", "mean"),
    ("mean_average_precision", "mAP"),
)


def evaluate(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    split: Annotated[str, typer.Option(help="Which pictures to measure on.")] = "test",
    features: Features = None,
    folds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Measure on that many consecutive blocks and average, as papers do: 5 blocks of "
            "1,000 make COCO's '1k'.",
        ),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the JSON here.")
    ] = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval: R@K in percent, and where the best true item stands.

    What counts as true are an image's own captions; for scenes it is everything that holds.
    Ties count half, so that a model which cannot tell things apart scores as chance.

    \b
    [bold]Examples[/bold]
      hasse evaluate data/scenes
      hasse evaluate data/coco --model data/coco-model --features data/coco-features --folds 5
    """
    from models import checkpoint
    from models.datasets import load
    from models.evaluation import evaluate as measure
    from service.device import pick_device
    from service.encoded import ImageSource, encode_dataset

    loaded = checkpoint.load(model or checkpoint.pretrained(), pick_device(device))
    collection = load(dataset).split(split)
    source = ImageSource(features, batch_size, workers, lambda line: typer.echo(line, err=True))
    with progress("encoding") as report:
        encoded = encode_dataset(loaded.model, collection, source, report)
    if folds > len(encoded.dataset):
        raise Mistake(
            f"{len(encoded.dataset)} images do not make {folds} blocks: use fewer --folds"
        )
    measured: list[Evaluation] = []
    with progress("ranking") as report:
        for block in encoded.blocks(folds):
            score = loaded.model.config.score
            measured.append(measure(block.dataset, block.images, block.captions, score))
            report(len(measured), folds)
    result = {
        "dataset": encoded.dataset.name,
        "split": split,
        "model": loaded.name,
        "fingerprint": loaded.fingerprint,
        "folds": folds,
        **_mean([one.to_json() for one in measured]),
    }
    text = json.dumps(result, indent=2)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    else:
        _show(result)


def _mean(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average what was measured on each block; counts are added up."""
    first = results[0]
    merged: dict[str, Any] = {}
    for name, value in first.items():
        values = [result[name] for result in results]
        if isinstance(value, Mapping):
            merged[name] = _mean(values)
        elif isinstance(value, int):
            merged[name] = sum(values)
        elif isinstance(value, float):
            merged[name] = sum(values) / len(values)
        else:
            merged[name] = value
    return merged


def _show(result: Mapping[str, Any]) -> None:
    rows = [
        (label, *(f"{result[key][name]:.1f}" for name, _ in COLUMNS)) for key, label in DIRECTIONS
    ]
    print_table(("", *(label for _, label in COLUMNS)), rows)
    folds = f", mean of {result['folds']} blocks" if result["folds"] > 1 else ""
    typer.echo(
        f"rsum {result['rsum']:.1f}; {result['images']:,} images, {result['captions']:,} captions"
        f"{folds}; true by {result['truth']}; model {result['model']}"
    )
    tied = sum(result[key]["tied"] for key, _ in DIRECTIONS)
    if tied:
        typer.echo(f"{tied:,} queries end in a tie, which counts half", err=True)
