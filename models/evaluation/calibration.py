"""The probability that a caption is true, by its violation, measured on validation data.

A violation ranks, but the violation below which a pair counts as true differs from model to
model. The probability is the share of true pairs among pairs of about the same violation, in a
validation split. It is made to fall as the violation grows (isotonic regression by pooling
adjacent violators; Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass
probability estimates", 2002).

The probabilities hold for pairs as frequent as in the split: where one caption in a thousand is
true of a picture, few pairs are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.models.datasets import Dataset
from hasse.models.embedding_model import Points, TextTraits
from hasse.models.evaluation.ground_truth import GroundTruth, known_ground_truth
from hasse.models.score import Score, penalties_between
from hasse.models.vocabulary import words

# Points are at most 1 long, and those of the order scores have no negative coordinate, so no
# violation is above 1. The cosine's penalties above 1 count as 1. Square-root spacing separates
# small violations, where most true pairs are.
BINS = 2048
# Rows in a block of pairs, and how many captions are paired with each other.
BLOCK_ROWS = 256
PAIRED_CAPTIONS = 2000

# Mass of a text that names one thing with many things above it. Few texts have more.
LARGE_MASS = 3.0

_ARTICLES = frozenset({"a", "an", "the"})

Pairs = Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]
Floats = NDArray[np.float64]
Block = tuple[NDArray[np.floating], NDArray[np.bool_]]
Mass = TypeVar("Mass", float, Floats)
# Whether a text only names things, and the number to add to its violations.
Shift = tuple[bool, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The probability of truth by violation, for one kind of pair.

    Attributes:
        violations: (n,), rising.
        probabilities: (n,), falling: how likely a pair of each violation is to be true.
        threshold: pairs of a smaller violation count as true. Then precision equals recall.
        pairs: the number of pairs in the measurement.
        true: the number of true ones among them.
        word_weight: added to a violation for each further word of a text (`further_words`); the
            curve is for texts of one word. Points of texts have one length, so general texts
            violate as much as specific ones, though they are true more often.
        things: the calibration of texts that only name things; None if the model is not grounded.
        traits: returns the traits of a text; None if the model is not grounded.
        mass_weight: added to a violation for each unit of mass below `LARGE_MASS`. A text that
            demands little is violated little, also where it is false.
        untaught_weight: added to a violation times the share of untaught words. Pictures hardly
            violate such words less where the thing is there.
    """

    violations: tuple[float, ...]
    probabilities: tuple[float, ...]
    threshold: float
    pairs: int
    true: int
    word_weight: float = 0.0
    things: Calibration | None = None
    traits: Callable[[str], TextTraits] | None = field(default=None, repr=False, compare=False)
    mass_weight: float = 0.0
    untaught_weight: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a curve of probabilities that does not fall (ValueError)."""
        x, p = np.array(self.violations), np.array(self.probabilities)
        falls = len(x) == len(p) > 0 and (np.diff(x) > 0).all() and (np.diff(p) <= 0).all()
        if not (falls and (p >= 0).all() and (p <= 1).all() and self.threshold >= 0):
            raise ValueError("violations have to rise, and probabilities in [0, 1] to fall")

    def probability(self, violation: ArrayLike) -> Floats:
        """Return the probability of truth at each violation, any shape."""
        return np.interp(
            np.asarray(violation, dtype=np.float64), self.violations, self.probabilities
        )

    def for_text(self, text: str) -> Calibration:
        """Return the calibration of pairs with a text."""
        names_things, added = self.shift(text)
        curve = self.things if names_things and self.things is not None else self
        return curve._with_added(added)

    def shift(self, text: str) -> Shift:
        """Return whether a text only names things, and the number to add to its violations."""
        added = self.word_weight * further_words(text)
        if self.things is None or self.traits is None:
            return False, added
        traits = self.traits(text)
        if traits.mass:
            return True, mass_added(self.things.mass_weight, traits.mass)
        return False, added + self.untaught_weight * traits.untaught

    def shifted_probabilities(self, shifts: Sequence[Shift], violations: ArrayLike) -> Floats:
        """Return the probabilities that texts are true, by their shifts and violations: (T,)."""
        shifted = np.asarray(violations, np.float64) + [added for _, added in shifts]
        probabilities = self.probability(shifted)
        if self.things is not None:
            named = np.array([names_things for names_things, _ in shifts], np.bool_)
            probabilities[named] = self.things.probability(shifted[named])
        return probabilities

    def _with_added(self, added: float) -> Calibration:
        """Return the calibration that adds a number to each violation first."""
        if not (added or self.word_weight or self.mass_weight or self.untaught_weight):
            return self
        return replace(
            self,
            violations=tuple(violation - added for violation in self.violations),
            threshold=max(0.0, self.threshold - added),
            word_weight=0.0,
            mass_weight=0.0,
            untaught_weight=0.0,
        )

    def rounded_probabilities(self, texts: Iterable[str], violations: ArrayLike) -> list[float]:
        """Return the probability of truth of each text at its violation, to 4 decimals."""
        probabilities = self.shifted_probabilities([self.shift(text) for text in texts], violations)
        return [round(probability, 4) for probability in probabilities.tolist()]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        document = asdict(replace(self, traits=None))
        del document["traits"]
        for weight in ("mass_weight", "untaught_weight"):
            if not document[weight]:
                del document[weight]
        if self.things is None:
            del document["things"]
        else:
            document["things"] = self.things.to_json()
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read the result of `to_json`; raises TypeError, KeyError or ValueError."""
        return cls(
            tuple(map(float, document["violations"])),
            tuple(map(float, document["probabilities"])),
            float(document["threshold"]),
            int(document["pairs"]),
            int(document["true"]),
            float(document.get("word_weight", 0.0)),
            None if document.get("things") is None else cls.from_json(document["things"]),
            mass_weight=float(document.get("mass_weight", 0.0)),
            untaught_weight=float(document.get("untaught_weight", 0.0)),
        )


def further_words(text: str) -> int:
    """Count the words of a text after the first, without articles."""
    return max(0, sum(word not in _ARTICLES for word in words(text)) - 1)


def mass_added(weight: float, mass: Mass) -> Mass:
    """Return the number to add to the violation of a text of this mass, or of several texts."""
    return weight * (LARGE_MASS - mass)


@dataclass(frozen=True, slots=True)
class Calibrations:
    """A model's calibrations; None where there are no pairs to measure.

    Attributes:
        image: whether a caption is true of an image.
        caption: whether one caption entails another. Known for scenes only.
    """

    image: Calibration | None = None
    caption: Calibration | None = None

    def with_traits(self, traits: Callable[[str], TextTraits]) -> Self:
        """Return these calibrations for a model that gives texts these traits."""
        curves = (
            None if curve is None else replace(curve, traits=traits)
            for curve in (self.image, self.caption)
        )
        return type(self)(*curves)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        curves = {"image": self.image, "caption": self.caption}
        return {name: None if curve is None else curve.to_json() for name, curve in curves.items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read the result of `to_json`; raises TypeError, KeyError or ValueError.

        An earlier version wrote a `length_weight` and counted words in another way. Its models
        count as not calibrated.
        """
        image, caption = document["image"], document["caption"]
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
