"""Calibrates a model: measures the probability that a caption is true, by its violation.

The probability is the share of true pairs among pairs of about the same violation, in a validation
split. It is made to fall as the violation grows (isotonic regression by pooling adjacent violators;
Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates",
2002).

The probabilities hold for pairs as frequent as in the split: where one caption in a thousand is
true of a picture, few pairs are certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.ground_truth import GroundTruth, known_ground_truth
from hasse.models.calibration import Calibration, Calibrations, Floats
from hasse.models.datasets import Dataset
from hasse.models.embedding_model import Points
from hasse.models.score import Score, penalties_between

# Points are at most 1 long, and those of the order scores have no negative coordinate, so no
# violation is above 1. The cosine's penalties above 1 count as 1. Square-root spacing separates
# small violations, where most true pairs are.
BINS = 2048
# Rows in a block of pairs, and how many captions are paired with each other.
BLOCK_ROWS = 256
PAIRED_CAPTIONS = 2000

Pairs = Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]
Block = tuple[NDArray[np.floating], NDArray[np.bool_]]


def calibrations(
    dataset: Dataset,
    images: Points,
    captions: Points,
    score: Score,
    *,
    block_rows: int = BLOCK_ROWS,
) -> Calibrations:
    """Calibrate a model on a dataset that it has not learned from.

    Args:
        dataset: its ground truth decides which captions are true of which images.
        images: (I, N), in the order of `dataset.images`.
        captions: (C, N), in the order of `dataset.captions`.
        score: the model's score.
    """
    truth = known_ground_truth(dataset)
    return Calibrations(
        calibrate(_image_pairs(truth, images, captions, score, block_rows)),
        calibrate(caption_pairs(truth, captions, score, block_rows)),
    )


def _image_pairs(
    truth: GroundTruth, images: Points, captions: Points, score: Score, block: int
) -> Pairs:
    all_captions = np.arange(len(captions))
    for start in range(0, len(images), block):
        rows = np.arange(start, min(start + block, len(images)))
        yield penalties_between(score, images[rows], captions), truth.holds(rows, all_captions)


def caption_pairs(
    truth: GroundTruth,
    captions: Points,
    score: Score,
    block: int = BLOCK_ROWS,
    count: int = PAIRED_CAPTIONS,
) -> Pairs:
    """Pair at most `most` captions with each other; none is paired with itself.

    There are no pairs if the ground truth does not know which caption follows from which.
    """
    chosen_rows = np.unique(np.linspace(0, len(captions) - 1, count).astype(np.int64))
    points = captions[chosen_rows]
    for start in range(0, len(chosen_rows), block):
        rows = np.arange(start, min(start + block, len(chosen_rows)))
        true = truth.entails(chosen_rows, chosen_rows[rows])  # (premises, hypotheses)
        if true is None:
            return
        penalty = penalties_between(score, points, points[rows])
        other_rows = np.not_equal.outer(np.arange(len(chosen_rows)), rows)
        yield penalty[other_rows], true[other_rows]


def calibrate(*kinds: Iterable[Block]) -> Calibration | None:
    """Fit a calibration, in memory that does not grow with the number of pairs.

    Args:
        kinds: for each kind of pair, blocks of penalties with an array of the same shape, true
            for true pairs. Penalties above 1 count as 1. Each kind has the same total weight.

    Returns:
        None where all pairs are true, or all are false.
    """
    counts = [_count_in_bins(blocks) for blocks in kinds]
    largest = max((_number(count) for count in counts), default=0.0)
    counts_of_all = np.zeros((3, BINS))
    for count in counts:
        counts_of_all += count * (largest / max(1.0, _number(count)))
    return _fit(counts_of_all)


def _number(counts: Floats) -> float:
    return float(counts[:2].sum())


def _count_in_bins(blocks: Iterable[Block]) -> Floats:
    """Return false pairs, true pairs and the sum of violations in each bin: (3, BINS)."""
    counts = np.zeros((3, BINS))
    for penalty, true in blocks:
        values = np.clip(penalty.ravel(), 0, 1).astype(np.float64)
        bins = np.minimum((np.sqrt(values) * BINS).astype(np.int64), BINS - 1)
        in_bins = np.bincount(bins, minlength=BINS)
        true_in_bins = np.bincount(bins[true.ravel()], minlength=BINS)
        counts += (in_bins - true_in_bins, true_in_bins, np.bincount(bins, values, minlength=BINS))
    return counts


def _fit(counts: Floats) -> Calibration | None:
    """Return the calibration of pairs that `_count_in_bins` counted, or None."""
    false, true_counts, sums = counts
    if not false.any() or not true_counts.any():
        return None
    used_bins = np.flatnonzero(false + true_counts)
    pools = _pools(true_counts[used_bins], false[used_bins])
    starts = used_bins[pools]
    pooled_true = np.add.reduceat(true_counts, starts)
    pooled = pooled_true + np.add.reduceat(false, starts)
    # Half a pair of each kind is added, so that small blocks are not certain.
    probabilities = np.minimum.accumulate((pooled_true + 0.5) / (pooled + 1))
    violations = np.add.reduceat(sums, starts) / pooled
    return Calibration(
        tuple(violations.tolist()),
        tuple(probabilities.tolist()),
        _equal_precision_and_recall(true_counts, false),
        round(_number(counts)),
        round(float(true_counts.sum())),
    )


def _pools(true: Floats, false: Floats) -> NDArray[np.int64]:
    """Pool neighbours until the share of true pairs falls; return the start of each pool."""
    pools: list[tuple[int, float, float]] = []  # start, true, all
    for start, (true_count, false_count) in enumerate(zip(true, false, strict=True)):
        pool = (start, true_count, true_count + false_count)
        while pools and pools[-1][1] * pool[2] <= pool[1] * pools[-1][2]:
            previous = pools.pop()
            pool = (previous[0], previous[1] + pool[1], previous[2] + pool[2])
        pools.append(pool)
    return np.array([start for start, _, _ in pools])


def _equal_precision_and_recall(true: Floats, false: Floats) -> float:
    """Return the violation below which there are as many pairs as there are true ones."""
    below = np.concatenate(([0.0], np.cumsum(true + false)))
    edges = (np.arange(BINS + 1) / BINS) ** 2
    return float(np.interp(true.sum(), below, edges))
