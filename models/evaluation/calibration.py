"""From a violation to the probability that a caption is true, measured on validation data.

A violation ranks; whether the best one found is good enough to be called true is another
question, and its answer differs from model to model. Pairs of a validation split, true and
false, answer it: the share of true pairs among those of about one violation, forced to fall as
the violation grows (isotonic regression by pooling adjacent violators; Zadrozny and Elkan,
"Transforming classifier scores into accurate multiclass probability estimates", 2002).

The probabilities are those of pairs drawn as the split has them: where one caption in a
thousand is true of a picture, few pairs are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.models.datasets import Dataset
from hasse.models.evaluation.ground_truth import GroundTruth, known_ground_truth
from hasse.models.model import Points
from hasse.models.score import Score, penalties_between
from hasse.models.vocabulary import words
from hasse.studies.photographs.chain_evaluation import Pairs as ChainPairs
from hasse.studies.photographs.chain_evaluation import mean_tau, pair
from hasse.studies.photographs.chains import Chain

# Points are no longer than one and an order's have no negative coordinate, so that no violation is
# above 1; the cosine's penalties above it count as 1. Square-root spacing keeps small violations,
# where most truths are, apart.
BINS = 2048
# Rows of a block of pairs, and captions that are paired with each other.
BLOCK_ROWS = 256
PAIRED_CAPTIONS = 2000

# What each further word of a text may add to a violation, and the tau it is to bring. A tau of 0.5
# on chains that rules derive was about 0.3 on chains that people looked through.
WORD_WEIGHTS = tuple(step / 1000 for step in range(21))
LEAST_TAU = 0.5
_ARTICLES = frozenset({"a", "an", "the"})

Pairs = Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What violations mean, for one kind of pair.

    Attributes:
        violations: (n,), rising; `probabilities` are given at these.
        probabilities: (n,), falling, of a pair of that violation being true.
        threshold: call true what violates less: then as many false pairs are called true as
            true ones are missed (equal precision and recall).
        pairs: how many pairs were looked at.
        true: how many of them are true.
        word_weight: what each further word of a text (`further_words`) adds to a violation; the
            curve is that of a text of one word. Points of texts have one length, so general ones
            violate as much as specific ones, though they are true more often.
    """

    violations: tuple[float, ...]
    probabilities: tuple[float, ...]
    threshold: float
    pairs: int
    true: int
    word_weight: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is not a falling curve of probabilities (ValueError)."""
        at, p = np.array(self.violations), np.array(self.probabilities)
        falls = len(at) == len(p) > 0 and (np.diff(at) > 0).all() and (np.diff(p) <= 0).all()
        if not (falls and (p >= 0).all() and (p <= 1).all() and self.threshold >= 0):
            raise ValueError("a calibration is a rising row of violations, a falling one in [0, 1]")

    def probability(self, violation: ArrayLike) -> Floats:
        """Return the probability of truth at each violation, any shape."""
        return np.interp(
            np.asarray(violation, dtype=np.float64), self.violations, self.probabilities
        )

    def of(self, text: str) -> Calibration:
        """Return the calibration of pairs with a text."""
        if not self.word_weight:
            return self
        added = self.word_weight * further_words(text)
        return replace(
            self,
            violations=tuple(violation - added for violation in self.violations),
            threshold=max(0.0, self.threshold - added),
            word_weight=0.0,
        )

    def of_each(self, texts: Iterable[str], violations: ArrayLike) -> list[float]:
        """Return the probability of truth of each text at its violation, rounded for people."""
        if not self.word_weight:
            return [round(each, 4) for each in self.probability(violations).tolist()]
        return [
            round(float(self.of(text).probability(violation)), 4)
            for text, violation in zip(texts, np.asarray(violations), strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Read what `to_json` gave; raises TypeError, KeyError or ValueError."""
        return cls(
            tuple(map(float, found["violations"])),
            tuple(map(float, found["probabilities"])),
            float(found["threshold"]),
            int(found["pairs"]),
            int(found["true"]),
            float(found.get("word_weight", 0.0)),
        )


def further_words(text: str) -> int:
    """Count the words of a text after the first, articles left out."""
    return max(0, sum(word not in _ARTICLES for word in words(text)) - 1)


@dataclass(frozen=True, slots=True)
class Calibrations:
    """What a model's violations mean; None where nothing was there to tell.

    Attributes:
        image: of a caption and an image: is the caption true of it?
        caption: of two captions: does the first entail the second? Known for scenes only.
    """

    image: Calibration | None = None
    caption: Calibration | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Read what `to_json` gave; raises TypeError, KeyError or ValueError.

        A calibration with a `length_weight` is of a former version, which counted words otherwise:
        the model counts as not calibrated.
        """
        image, caption = found["image"], found["caption"]
        if isinstance(image, dict) and image.get("length_weight"):
            image = None
        return cls(
            None if image is None else Calibration.from_json(image),
            None if caption is None else Calibration.from_json(caption),
        )


def calibrations(
    dataset: Dataset,
    images: Points,
    captions: Points,
    score: Score,
    *,
    block_rows: int = BLOCK_ROWS,
) -> Calibrations:
    """Measure what a model's violations mean on a dataset that it has not learned from.

    Args:
        dataset: says which captions are true of which images.
        images: (I, N), in the order of `dataset.images`.
        captions: (C, N), in the order of `dataset.captions`.
        score: how the model compares them.
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
    most: int = PAIRED_CAPTIONS,
) -> Pairs:
    """Pair captions, evenly taken from all of them, with each other and not with themselves.

    There are no pairs where it is not known which caption follows from which.
    """
    taken = np.unique(np.linspace(0, len(captions) - 1, most).astype(np.int64))
    points = captions[taken]
    for start in range(0, len(taken), block):
        rows = np.arange(start, min(start + block, len(taken)))
        true = truth.entails(taken, taken[rows])  # (premises, hypotheses)
        if true is None:
            return
        penalty = penalties_between(score, points, points[rows])
        others = np.not_equal.outer(np.arange(len(taken)), rows)
        yield penalty[others], true[others]


def calibrate(
    blocks: Iterable[tuple[NDArray[np.floating], NDArray[np.bool_]]],
) -> Calibration | None:
    """Measure what violations mean, in memory that does not grow with the number of pairs.

    Args:
        blocks: penalties, of which those above 1 count as 1, and, of the same shape, which of the
            pairs are true.

    Returns:
        None where all pairs are true, or all false: nothing can be told then.
    """
    counts = np.zeros((2, BINS))
    sums = np.zeros(BINS)  # of the violations in each bin
    for penalty, true in blocks:
        values = np.clip(penalty.ravel(), 0, 1).astype(np.float64)
        bins = np.minimum((np.sqrt(values) * BINS).astype(np.int64), BINS - 1)
        of_all = np.bincount(bins, minlength=BINS)
        of_true = np.bincount(bins[true.ravel()], minlength=BINS)
        counts += (of_all - of_true, of_true)
        sums += np.bincount(bins, values, minlength=BINS)
    false, true_counts = counts
    if not false.any() or not true_counts.any():
        return None
    filled = np.flatnonzero(false + true_counts)
    blocks_of = _falling(true_counts[filled], false[filled])
    starts = filled[blocks_of]
    pooled_true = np.add.reduceat(true_counts, starts)
    pooled = pooled_true + np.add.reduceat(false, starts)
    # A pair more of either kind keeps small blocks from claiming certainty.
    probabilities = np.minimum.accumulate((pooled_true + 0.5) / (pooled + 1))
    at = np.add.reduceat(sums, starts) / pooled
    return Calibration(
        tuple(at.tolist()),
        tuple(probabilities.tolist()),
        _equal_precision_and_recall(true_counts, false),
        int(counts.sum()),
        int(true_counts.sum()),
    )


@dataclass(frozen=True, slots=True)
class ChainedImages:
    """Images with chains from general to specific; points (I, N) in the order of the dataset's."""

    dataset: Dataset
    points: Points
    chains: Sequence[Chain]

    def pairs(
        self, encode: Callable[[Sequence[str]], Points], score: Score
    ) -> tuple[ChainPairs, Floats, Floats]:
        """Return pairs (P,), their violations, and the numbers of further words of their texts."""
        pairs, _ = pair(self.dataset, self.chains)
        rows, of_pair = np.unique(pairs.images, return_inverse=True)
        every = penalties_between(score, self.points[rows], encode(pairs.texts))
        further = np.array([further_words(text) for text in pairs.texts], dtype=np.float64)
        violations = every[of_pair, pairs.text_rows].astype(np.float64)
        return pairs, violations, further[pairs.text_rows]


def calibrate_chains(
    first: ChainedImages,
    *others: ChainedImages,
    encode: Callable[[Sequence[str]], Points],
    score: Score,
) -> Calibration | None:
    """Measure what violations of texts of all lengths mean, on chains from general to specific.

    As many pairs are false as `chain_evaluation.pair` draws. The word weight is the
    smallest of `WORD_WEIGHTS` by which general texts are called truer than specific ones that
    are as true (Kendall's tau on the first images is at least `LEAST_TAU`), or the largest.

    Args:
        first, others: images of several kinds, so that the probability holds for more than one.
        encode: gives texts their points.
        score: how the model compares them.
    """
    shown = [one.pairs(encode, score) for one in (first, *others)]
    pairs, violations, further = shown[0]
    for weight in WORD_WEIGHTS:
        if mean_tau(pairs, -(violations + weight * further)) >= LEAST_TAU:
            break
    found = calibrate((penalty + weight * count, of.true) for of, penalty, count in shown)
    return None if found is None else replace(found, word_weight=weight)


def _falling(true: Floats, false: Floats) -> NDArray[np.int64]:
    """Pool neighbours until the share of true pairs falls; return where each pool starts."""
    pools: list[tuple[int, float, float]] = []  # start, true, all
    for start, (good, bad) in enumerate(zip(true, false, strict=True)):
        pool = (start, good, good + bad)
        while pools and pools[-1][1] * pool[2] <= pool[1] * pools[-1][2]:
            last = pools.pop()
            pool = (last[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    return np.array([start for start, _, _ in pools])


def _equal_precision_and_recall(true: Floats, false: Floats) -> float:
    """Find where as many pairs lie below as there are true ones, between two edges of bins."""
    below = np.concatenate(([0.0], np.cumsum(true + false)))
    edges = (np.arange(BINS + 1) / BINS) ** 2
    return float(np.interp(true.sum(), below, edges))
