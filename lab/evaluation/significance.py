"""Intervals of retrieval metrics, and whether one model is better than another.

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

from hasse.lab.evaluation.ranking import Ranking
from hasse.lab.evaluation.retrieval import Evaluation, Retrieval

DIRECTIONS = ("caption_retrieval", "image_retrieval")
SAMPLES = 2000  # of the bootstrap
METRICS = ("r1", "r5", "r10", "median", "mean", "mean_average_precision")

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Intervals:
    """95 % intervals of the metrics of an `Evaluation`, or of the differences of two.

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
    return percentiles(resample(blocks))


def differences(blocks: Sequence[Retrieval], other_blocks: Sequence[Retrieval]) -> Intervals:
    """Return the intervals of (metrics of `blocks`) - (metrics of `other_blocks`), paired.

    Raises:
        ValueError: they have not the same queries.
    """
    if len(blocks) != len(other_blocks) or not all(map(same_queries, blocks, other_blocks)):
        raise ValueError("only rankings of the same images and captions can be compared")
    return percentiles(resample(blocks) - resample(other_blocks))


def difference(evaluation: Evaluation, other: Evaluation) -> dict[str, Any]:
    """Return (metrics of `evaluation`) - (metrics of `other`), and `rsum`."""
    gaps: dict[str, Any] = {
        direction: {
            metric: getattr(getattr(evaluation, direction), metric)
            - getattr(getattr(other, direction), metric)
            for metric in METRICS
        }
        for direction in DIRECTIONS
    }
    return gaps | {"rsum": evaluation.rsum - other.rsum}


def same_queries(block: Retrieval, other: Retrieval) -> bool:
    return block.images == other.images and all(
        np.array_equal(getattr(block, direction).images, getattr(other, direction).images)
        for direction in DIRECTIONS
    )


def resample(blocks: Sequence[Retrieval], samples: int = SAMPLES) -> Floats:
    """Return every metric in every draw: (directions, metrics, samples)."""
    values = np.zeros((len(DIRECTIONS), len(METRICS), samples))
    for seed, block in enumerate(blocks):
        query_images = np.unique(block.image_retrieval.images)
        tables = [_Table.of(getattr(block, direction), query_images) for direction in DIRECTIONS]
        for sample, counts in enumerate(draws(len(query_images), seed, samples)):
            for row, table in enumerate(tables):
                values[row, :, sample] += table.metrics(counts)
    return values / len(blocks)


def draws(number: int, seed: int = 0, samples: int = SAMPLES) -> Iterator[NDArray[np.int64]]:
    """Draw `number` of `number` rows with replacement, `samples` times; yield counts (number,).

    The same number and seed give the same draws, so that two models can be compared on them.
    """
    draw = np.random.default_rng(seed)
    for _ in range(samples):
        yield np.bincount(draw.integers(0, number, number), minlength=number)


@dataclass(frozen=True, slots=True)
class _Table:
    """The queries of a ranking, summed by image: measures a draw of images in one pass.

    Attributes:
        queries: (I,), the number of each image's queries.
        sums: (I, 5), over each image's queries: the metrics that are means.
        ranks, images: (Q,), rising ranks and the image of each.
    """

    queries: NDArray[np.int64]
    sums: Floats
    ranks: Floats
    images: NDArray[np.int64]

    @classmethod
    def of(cls, ranking: Ranking, query_images: NDArray[np.int64]) -> _Table:
        images, ranks = np.searchsorted(query_images, ranking.images), ranking.ranks
        averaged = [*(100.0 * (ranks <= k) for k in (1, 5, 10)), ranks, 100 * ranking.precisions]
        order = np.argsort(ranks)
        return cls(
            np.bincount(images, minlength=len(query_images)),
            np.stack(
                [np.bincount(images, v, minlength=len(query_images)) for v in averaged], axis=1
            ),
            ranks[order],
            images[order],
        )

    def metrics(self, counts: NDArray[np.int64]) -> Floats:
        """Return `METRICS` if each image is drawn `counts` times: (I,) -> (6,)."""
        means = (counts @ self.sums) / (counts @ self.queries)
        below = np.cumsum(counts[self.images])
        middle = np.searchsorted(below, [(below[-1] - 1) // 2, below[-1] // 2], side="right")
        median = np.floor(self.ranks[middle].mean() - 1) + 1
        return np.array([*means[:3], median, *means[3:]])


def percentiles(samples: Floats) -> Intervals:
    low, high = np.percentile(samples, [2.5, 97.5], axis=-1)
    # Recalls are the first three metrics of both directions.
    rsum = np.percentile(samples[:, :3].sum((0, 1)), [2.5, 97.5])
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
