"""Figures of an evaluation, as SVG.

Four figures: `recall` (share of queries answered among the first K), `ranks` (how many queries
found their best true item where), `violations` (of true and of false pairs) and `points` (images
and captions on the two axes along which they differ most).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.ground_truth import known_ground_truth
from hasse.lab.evaluation.retrieval import BLOCK_ENTRIES
from hasse.models.score import penalties_between
from hasse.studies.plotter import figure
from hasse.studies.tables.plane import principal_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hasse.lab.pipelines.evaluation import ModelEvaluation

DIRECTIONS = (("caption_retrieval", "captions by image"), ("image_retrieval", "images by caption"))
DRAWN_POINTS = 500
BINS = 60
Floats = NDArray[np.float64]


def draw(
    measured: ModelEvaluation, folder: Path, progress: Callable[[int, int], None]
) -> list[Path]:
    """Write the four figures into a folder and return their paths.

    Raises:
        FiguresError: matplotlib is not installed.
    """
    paints = {"recall": _recall, "ranks": _ranks, "violations": _violations, "points": _points}
    paths = [folder / f"{name}.svg" for name in paints]
    for at, (path, paint) in enumerate(zip(paths, paints.values(), strict=True), start=1):
        with figure(path, f"{measured.name}: {path.stem}") as axes:
            paint(axes, measured)
        progress(at, len(paths))
    return paths


def _found(measured: ModelEvaluation, direction: str) -> Floats:
    """Gather the ranks of all queries of all blocks: (Q,)."""
    return np.concatenate([getattr(block, direction).ranks for block in measured.blocks])


def _recall(axes: Axes, measured: ModelEvaluation) -> None:
    for direction, label in DIRECTIONS:
        ranks = np.sort(_found(measured, direction))
        share = 100 * np.arange(1, len(ranks) + 1) / len(ranks)
        axes.step(ranks, share, where="post", label=label)
    axes.set(xscale="log", xlabel="K", ylabel="R@K, percent", ylim=(0, 100))
    axes.legend(loc="lower right")


def _ranks(axes: Axes, measured: ModelEvaluation) -> None:
    found = [_found(measured, direction) for direction, _ in DIRECTIONS]
    edges = np.geomspace(1, max(2.0, *(ranks.max() for ranks in found)) + 1, 25)
    shares: Any = [np.full(len(ranks), 100 / len(ranks)) for ranks in found]
    axes.hist(found, edges.tolist(), weights=shares, label=[label for _, label in DIRECTIONS])
    axes.set(xscale="log", xlabel="rank of the best true item", ylabel="queries, percent")
    axes.legend()


def _violations(axes: Axes, measured: ModelEvaluation) -> None:
    edges, true, false = _spread(measured)
    for counts, label in ((true, "true"), (false, "false")):
        density = counts / max(1, counts.sum()) / np.diff(edges)
        axes.stairs(density, edges, fill=True, alpha=0.5, label=f"{label} ({counts.sum():,})")
    name = "1 - cosine" if measured.score == "cosine" else "violation"
    axes.set(xlabel=f"{name} of image and caption", ylabel="density", xlim=(0, edges[-1]))
    axes.set_yticks([])
    axes.legend(title="pairs")


def _spread(measured: ModelEvaluation) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Count penalties of true and of false pairs: edges (BINS + 1,), true, false (BINS,).

    Looks at images evenly taken, with all captions, so that the work is bounded.
    """
    encoded = measured.encoded
    take = max(1, min(len(encoded.images), BLOCK_ENTRIES // len(encoded.captions)))
    rows = np.unique(np.linspace(0, len(encoded.images) - 1, take).astype(np.int64))
    found = penalties_between(measured.score, encoded.images[rows], encoded.captions)
    holds = known_ground_truth(encoded.dataset).holds(rows, np.arange(len(encoded.captions)))
    edges = np.linspace(0, max(float(found.max()), 1e-6), BINS + 1)
    true, false = (np.histogram(found[pairs], edges)[0] for pairs in (holds, ~holds))
    return edges, true, false


def _points(axes: Axes, measured: ModelEvaluation) -> None:
    encoded = measured.encoded
    images, captions = (
        points[np.unique(np.linspace(0, len(points) - 1, DRAWN_POINTS).astype(np.int64))]
        for points in (encoded.images, encoded.captions)
    )
    places, share = principal_plane(np.concatenate((images, captions)))
    for flat, label in ((places[: len(images)], "images"), (places[len(images) :], "captions")):
        axes.scatter(flat[:, 0], flat[:, 1], s=8, alpha=0.6, linewidths=0, label=label)
    axes.set(xlabel=f"first two principal axes, {100 * share:.0f} % of the variance")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend()
