"""How sure a measured retrieval is, and whether one model is better than another.

The bootstrap draws images, each with all its captions: captions of one image are not five
independent pieces of evidence. Blocks are drawn one by one and averaged, as the metrics are. Two
models are compared on the same draws (paired), which cancels the difficulty they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.models.evaluation.ranking import Ranking
from hasse.models.evaluation.retrieval import Evaluation, Retrieval

DIRECTIONS = ("caption_retrieval", "image_retrieval")
SAMPLES = 2000  # draws of a sample
METRICS = ("r1", "r5", "r10", "median", "mean", "mean_average_precision")

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Intervals:
    """95 % intervals of what an `Evaluation` holds, or of the differences of two.

    Attributes:
        metrics: low and high by direction and metric, named as in `Evaluation`.
    """

    metrics: dict[str, dict[str, Interval]]
    rsum: Interval

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.metrics, "rsum": self.rsum}


def intervals(blocks: Sequence[Retrieval]) -> Intervals:
    """Return the intervals of the mean evaluation of some blocks of a collection."""
    return percentiles(resampled(blocks))


def differences(blocks: Sequence[Retrieval], others: Sequence[Retrieval]) -> Intervals:
    """Return the intervals of (metrics of `blocks`) - (metrics of `others`), paired.

    Raises:
        ValueError: the two are not of the same queries.
    """
    if len(blocks) != len(others) or not all(map(same_queries, blocks, others)):
        raise ValueError("only rankings of the same images and captions can be compared")
    return percentiles(resampled(blocks) - resampled(others))


def difference(mine: Evaluation, others: Evaluation) -> dict[str, Any]:
    """Subtract evaluations: by direction and metric, and `rsum`."""
    gaps: dict[str, Any] = {
        direction: {
            metric: getattr(getattr(mine, direction), metric)
            - getattr(getattr(others, direction), metric)
            for metric in METRICS
        }
        for direction in DIRECTIONS
    }
    return gaps | {"rsum": mine.rsum - others.rsum}


def same_queries(block: Retrieval, other: Retrieval) -> bool:
    return block.images == other.images and all(
        np.array_equal(getattr(block, direction).images, getattr(other, direction).images)
        for direction in DIRECTIONS
    )


def resampled(blocks: Sequence[Retrieval], samples: int = SAMPLES) -> Floats:
    """Return every metric in every draw: (directions, metrics, samples)."""
    out = np.zeros((len(DIRECTIONS), len(METRICS), samples))
    for seed, block in enumerate(blocks):
        asking = np.unique(block.image_retrieval.images)
        tables = [_Table.of(getattr(block, direction), asking) for direction in DIRECTIONS]
        for at, counts in enumerate(draws(len(asking), seed, samples)):
            for row, table in enumerate(tables):
                out[row, :, at] += table.metrics(counts)
    return out / len(blocks)


def draws(number: int, seed: int = 0, samples: int = SAMPLES) -> Iterator[NDArray[np.int64]]:
    """Draw `number` things with replacement, `samples` times: how often each came, (number,).

    The same number and seed give the same draws, so that two models can be compared on them.
    """
    draw = np.random.default_rng(seed)
    for _ in range(samples):
        yield np.bincount(draw.integers(0, number, number), minlength=number)


@dataclass(frozen=True, slots=True)
class _Table:
    """The queries of a ranking, so that a draw of images is measured in one pass.

    Attributes:
        queries: (I,), of each image.
        sums: (I, 5), over each image's queries, of what is averaged.
        ranks, images: (Q,), rising ranks and the image of each.
    """

    queries: NDArray[np.int64]
    sums: Floats
    ranks: Floats
    images: NDArray[np.int64]

    @classmethod
    def of(cls, ranking: Ranking, asking: NDArray[np.int64]) -> _Table:
        images, ranks = np.searchsorted(asking, ranking.images), ranking.ranks
        averaged = [*(100.0 * (ranks <= k) for k in (1, 5, 10)), ranks, 100 * ranking.precisions]
        order = np.argsort(ranks)
        return cls(
            np.bincount(images, minlength=len(asking)),
            np.stack([np.bincount(images, v, minlength=len(asking)) for v in averaged], axis=1),
            ranks[order],
            images[order],
        )

    def metrics(self, counts: NDArray[np.int64]) -> Floats:
        """Return `METRICS` of the queries of images that each come `counts` times: (6,)."""
        means = (counts @ self.sums) / (counts @ self.queries)
        below = np.cumsum(counts[self.images])
        middle = np.searchsorted(below, [(below[-1] - 1) // 2, below[-1] // 2], side="right")
        median = np.floor(self.ranks[middle].mean() - 1) + 1
        return np.array([*means[:3], median, *means[3:]])


def percentiles(drawn: Floats) -> Intervals:
    low, high = np.percentile(drawn, [2.5, 97.5], axis=-1)
    # Recalls are the first three metrics of both directions.
    rsum = np.percentile(drawn[:, :3].sum((0, 1)), [2.5, 97.5])
    return Intervals(
        {
            direction: {
                metric: (float(low[row, column]), float(high[row, column]))
                for column, metric in enumerate(METRICS)
            }
            for row, direction in enumerate(DIRECTIONS)
        },
        (float(rsum[0]), float(rsum[1])),
    )
