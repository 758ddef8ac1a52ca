"""`hasse lab evaluate`: how well a model finds what is true, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.options import (
    BatchSize,
    DatasetFolder,
    Device,
    Features,
    Json,
    Model,
    Workers,
)
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.service.pipelines.evaluation import Measured

DIRECTIONS = (("caption_retrieval", "captions by image"), ("image_retrieval", "images by caption"))
COLUMNS = (
    ("r1", "R@1"),
    ("r5", "R@5"),
    ("r10", "R@10"),
    ("median", "median"),
    ("mean", "mean"),
    ("mean_average_precision", "mAP"),
)


_PRECISION = "average_precision"

Against = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A second checkpoint, named like --model: say by how much that is better, or not.",
    ),
]
Split = Annotated[str, typer.Option(help="Which pictures to measure on; '' for those in no split.")]
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
ChainsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also measure truth on chains from general to specific: those of 'hasse study "
        "photographs abstract', or a CSV of HierarCaps.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the JSON here.")
]
PlotFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Draw recall curves, ranks, violations and points there, as SVG, beside the JSON.",
    ),
]


def evaluate(
    *,
    dataset: DatasetFolder,
    model: Model = None,
    against: Against = None,
    split: Split = "test",
    features: Features = None,
    against_features: AgainstFeatures = None,
    folds: Folds = 1,
    captions_per_image: CaptionsPerImage = None,
    chains: ChainsFile = None,
    out: ReportFile = None,
    plots: PlotFolder = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval: R@K in percent, and where the best true item stands.

    What counts as true are an image's own captions; for scenes it is everything that holds.
    Ties count half, so that a model which cannot tell things apart scores as chance. Every
    figure comes with a 95 % interval, drawn over images; two models are compared on the same
    draws.

    \b
    [bold]Examples[/bold]
      hasse lab evaluate data/scenes
      hasse lab evaluate data/coco --model data/coco-model \\
          --features data/coco-features --captions-per-image 5 --folds 5
      hasse lab evaluate data/coco --model data/order --against data/cosine \\
          --features data/coco-features --plots data/order-plots
    """
    from hasse.service.pipelines.evaluation import EvaluationRequest
    from hasse.service.runtime.device import pick_device
    from hasse.studies.tables.figures import require_matplotlib

    if against_features is not None and against is None:
        raise CommandError(
            f"--against-features names {against_features}, and there is no --against: name a "
            f"second checkpoint, or leave it out"
        )
    if plots is not None:
        require_matplotlib()
    request = EvaluationRequest(
        dataset,
        split,
        model,
        against,
        features,
        against_features,
        folds,
        captions_per_image,
        chains,
        batch_size,
        workers,
        picture_limits(),
    )
    measured, result = request.run(pick_device(device), progress, tell)
    _report(measured, result, as_json=as_json, out=out, plots=plots)


def _report(
    measured: Measured,
    result: Mapping[str, Any],
    *,
    as_json: bool,
    out: Path | None,
    plots: Path | None,
) -> None:
    from hasse.studies.tables.figures import draw

    text = json.dumps(result, indent=2)
    if as_json:
        typer.echo(text)
    else:
        _show(result)
    if out is not None:
        _write(out, text)
    if plots is not None:
        kept = f"{plots} holds some of the figures; the same command draws them all"
        with progress("drawing") as report, resumable(lambda: kept):
            draw(measured, plots, report)
        _write(plots / "evaluation.json", text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def _show(result: Mapping[str, Any]) -> None:
    """Print tables: the model, and, if there is a second, that one and the difference."""
    other = result.get("against")
    _table(result, result["model"] if other else "")
    if other:
        typer.echo()
        _table(other, other["model"])
        typer.echo()
        _table(other["difference"], "difference", sign="+")
    typer.echo()
    for one in (result, other) if other else (result,):
        _show_sums(one, f"{one['model']}: " if other else "")
    if other:
        low, high = other["difference"]["intervals"]["rsum"]
        verdict = "within chance" if low <= 0 <= high else "beyond chance"
        rsum = other["difference"]["rsum"]
        typer.echo(f"difference: rsum {rsum:+.1f} ({low:+.1f} to {high:+.1f}), {verdict}")
    for one in (result, other) if other else (result,):
        if one["chains"]:
            _show_chains(one["chains"], f"{one['model']}: " if other else "")
    folds = f", mean of {result['folds']} blocks" if result["folds"] > 1 else ""
    most = result["captions_per_image"]
    first = f" (first {most} of each, {result['captions_left_out']:,} left out)" if most else ""
    typer.echo(
        f"{count(result['images'], 'image')}, {count(result['captions'], 'caption')}{first}"
        f"{folds}; true by {result['ground_truth']}; 95 % intervals over images"
        + ("" if other else f"; model {result['model']}")
    )
    tied = sum(result[key]["tied"] for key, _ in DIRECTIONS)
    if tied:
        typer.echo(f"queries that end in a tie, which counts half: {tied:,}", err=True)


def _show_sums(one: Mapping[str, Any], name: str) -> None:
    low, high = one["intervals"]["rsum"]
    typer.echo(f"{name}rsum {one['rsum']:.1f} ({low:.1f} to {high:.1f})")
    if study := one["length_study"]:
        typer.echo(
            f"{name}captions of one image that differ by {count(study['least_gap'], 'word')} "
            f"or more, {count(study['pairs'], 'pair')}: mean rank of the image "
            f"{study['image_rank']:.1f}, of the longer caption asked for by the shorter "
            f"{study['caption_rank']:.1f}"
        )


def _show_chains(found: Mapping[str, Any], name: str) -> None:
    """Print what was measured on chains, of the probability where there is one."""
    kind = "probability" if "probability" in found else "violation"
    measured, rows = found[kind], []
    labels = {"all": "all levels", "specific_true_general_false": "specific true, general false"}
    for key, value in measured.items():
        if key in {"tau", "in_order"}:
            continue
        rows.append(
            (labels.get(key, f"level {key}"), *map(_ranged, (value["auc"], value[_PRECISION])))
        )
    typer.echo()
    print_table((f"{name}{kind} on chains", "AUC", "average precision"), rows)
    typer.echo(
        f"tau of generality and {kind}: {_ranged(measured['tau'])}; chains in perfect order: "
        f"{_ranged(measured['in_order'])}; {count(found['chains'], 'chain')}"
    )
    tree = ", ".join(
        f"{key.replace('_', ' ')} {_ranged(value)}" for key, value in found["hierarchy"].items()
    )
    typer.echo(f"as HierarCaps measures: {tree}")
    for kind, table in found.get("reliability", {}).items():
        rows = [
            (f"{row['from']:.1f}", f"{row['pairs']:,}", f"{row['probability']:.3f}", _bar(row))
            for row in table["rows"]
        ]
        typer.echo()
        print_table((f"{name}{kind} texts: from", "pairs", "probability", "true"), rows)
        typer.echo(f"expected calibration error of {kind} texts: {table['error']:.3f}")


def _bar(row: Mapping[str, float]) -> str:
    """Draw the share of true pairs, with a mark where the probability puts it."""
    told, true = (round(20 * row[key]) for key in ("probability", "true"))
    bar = ["█" if at < true else "·" for at in range(20)]
    bar[min(told, 19)] = "|"
    return f"{row['true']:.3f} {''.join(bar)}"


def _ranged(value: Mapping[str, float]) -> str:
    return f"{value['value']:.3f} ({value['low']:.3f}…{value['high']:.3f})"


def _table(result: Mapping[str, Any], title: str, sign: str = "") -> None:
    rows = []
    for key, label in DIRECTIONS:
        values, bounds = result[key], result["intervals"][key]
        rows.append((label, *(f"{values[name]:{sign}.1f}" for name, _ in COLUMNS)))
        rows.append(
            ("", *(f"{bounds[n][0]:{sign}.1f}…{bounds[n][1]:{sign}.1f}" for n, _ in COLUMNS))
        )
    print_table((title, *(label for _, label in COLUMNS)), rows)
