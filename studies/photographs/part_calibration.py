"""Fits the scores of texts' parts to pairs of premises and texts, true and false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import DatasetError
from hasse.models.embedding_model import Points
from hasse.models.grounding.demands import Unit
from hasse.models.grounding.grounded_texts import GroundedTexts, violations
from hasse.models.grounding.part_scores import (
    MOST_UNITS,
    UNTOLD,
    Floats,
    PartScores,
    Weights,
    is_untold,
)

# What may be added to the scores of phrases, because a text has the least score of several parts.
LIFTS = tuple(step / 10 for step in range(21))
_STEPS, _RIDGE = 30, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Pairs of premises and texts of one kind; each kind counts equally.

    Attributes:
        points: of the premises, (I, N).
        texts: the distinct texts.
        rows, text_rows: (P,), rows of `points` and of `texts`.
        true: (P,).
        false_weight: of all false pairs together, for each unit of weight of the true ones; None
            to count each pair equally.
    """

    points: Points
    texts: Sequence[str]
    rows: NDArray[np.int64]
    text_rows: NDArray[np.int64]
    true: NDArray[np.bool_]
    false_weight: float | None = None

    @property
    def weights(self) -> Floats:
        """The weights of pairs: (P,), which add up to 1."""
        if self.false_weight is None or not self.true.any():
            return np.full(len(self.true), 1 / max(1, len(self.true)))
        of_true = self.true / self.true.sum()
        of_false = ~self.true / max(1, (~self.true).sum())
        return np.asarray((of_true + self.false_weight * of_false) / (1 + self.false_weight))


class _Part(NamedTuple):
    """A part of a text, its violations and the rows of the premises, and the pairs of the text."""

    units: tuple[Unit, ...]
    violations: Floats
    rows: NDArray[np.int64]
    pairs: NDArray[np.int64]
    is_whole: bool


class _Sample(NamedTuple):
    inputs: Floats
    true: NDArray[np.bool_]
    weights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """The parts of all texts of pairs of one kind."""

    judged: Judged
    evidence: Floats  # of the premises, (I, K)
    parts: Sequence[_Part]

    @classmethod
    def of(cls, model: GroundedTexts, judged: Judged) -> _Kind:
        learned, evidence = model.split(judged.points)
        order = np.argsort(judged.text_rows, kind="stable")
        starts = np.searchsorted(judged.text_rows[order], np.arange(1, len(judged.texts)))
        parts = [
            _Part(part.units, violations(learned[rows], point), rows, pairs, place == 0)
            for pairs, of_text in zip(
                np.split(order, starts), model.parts(judged.texts), strict=True
            )
            for rows in (judged.rows[pairs],)
            for place, (part, point) in enumerate(of_text)
        ]
        return cls(judged, evidence, parts)

    def words(self, *, by_classes: bool) -> _Sample:
        """Return the evidence of texts of one word, of either kind."""
        found = []
        for part in self.parts:
            told = part.units[0].told if part.is_whole and len(part.units) == 1 else None
            if told is not None and (told.classes if by_classes else told.taught):
                evidence = self.evidence[part.rows]
                one = (
                    evidence[:, told.classes].min(1)
                    if by_classes
                    else evidence[:, told.taught].max(1)
                )
                found.append((one[:, None], part.pairs))
        return self._sample(found, 1)

    def phrases(self, scores: PartScores, count: int) -> _Sample:
        """Return the inputs of the scores of whole texts with so many units."""
        found = []
        for part in self.parts:
            if part.is_whole and min(len(part.units), MOST_UNITS) == count:
                inputs = scores.inputs(part.units, part.violations, self.evidence[part.rows])
                if len(part.units) > 1 or not part.units[0].told:
                    found.append((inputs, part.pairs))
        return self._sample(found, len(Weights._fields) - 1)

    def least(self, scores: PartScores) -> tuple[Floats, Floats, Floats]:
        """Return the least scores of each pair's phrases, untold phrases and words: (P,) each."""
        found = [np.full(len(self.judged.true), np.inf) for _ in range(3)]
        for part in self.parts:
            score = scores.score(part.units, part.violations, self.evidence[part.rows])
            place = (1 if is_untold(part.units) else 0) if len(part.units) > 1 else 2
            np.minimum.at(found[place], part.pairs, score)
        return found[0], found[1], found[2]

    def _sample(self, found: Sequence[tuple[Floats, NDArray[np.int64]]], width: int) -> _Sample:
        pairs = np.concatenate([np.empty(0, np.int64), *(pairs for _, pairs in found)])
        inputs = np.concatenate([np.empty((0, width)), *(inputs for inputs, _ in found)])
        return _Sample(inputs, self.judged.true[pairs], self.judged.weights[pairs])


def fit_scores(
    model: GroundedTexts, shown: Sequence[Judged], named: Sequence[Judged] = ()
) -> PartScores:
    """Fit scores to pairs.

    The scores of one word's evidence and those of phrases of each number of words are fitted to
    whole texts, by logistic regression. Then all phrases are lifted by what makes the least scores
    of texts fit best.

    Args:
        model: reads and encodes the parts.
        shown: pairs of all texts.
        named: pairs whose texts are names of classes, which tell what classes' evidence means.

    Raises:
        DatasetError: the pairs are all true or all false.
    """
    kinds = [_Kind.of(model, judged) for judged in shown]
    of_named = [_Kind.of(model, judged) for judged in named] or kinds
    taught = _fit([kind.words(by_classes=False) for kind in kinds])
    classes = _fit([kind.words(by_classes=True) for kind in of_named])
    scores = PartScores(
        (max(0.0, taught[1]), taught[0]),
        (max(0.0, classes[1]), classes[0]),
        (Weights(0.0, 0.0),) * MOST_UNITS,
        sum(len(judged.true) for judged in shown),
        sum(int(judged.true.sum()) for judged in shown),
    )
    samples = [
        [kind.phrases(scores, count) for kind in kinds] for count in range(1, MOST_UNITS + 1)
    ]
    counts = [at for at, one in enumerate(samples) if any(len(each.true) for each in one)]
    fits = {at: Weights(*_fit(samples[at])) for at in counts}
    # Phrases of a number of words that no text has are scored as those of the nearest number.
    fitted = [
        fits[min(counts, key=lambda count: abs(count - at))] if counts else Weights(0.0, 0.0)
        for at in range(MOST_UNITS)
    ]
    scores = replace(scores, phrases=tuple(fitted))
    least = [(kind.judged, *kind.least(scores)) for kind in kinds]

    def loss(lift: float) -> float:
        total = 0.0
        for judged, phrases, untold, words in least:
            score = np.minimum(np.minimum(phrases + lift, words), np.minimum(untold + lift, UNTOLD))
            score = np.where(np.isfinite(untold), score, np.minimum(phrases + lift, words))
            total += float(judged.weights @ np.logaddexp(0, np.where(judged.true, -score, score)))
        return total

    lift = min(LIFTS, key=loss)
    lifted = [one._replace(bias=one.bias + lift) for one in fitted[1:]]
    return replace(scores, phrases=(fitted[0], *lifted))


def _fit(samples: Sequence[_Sample]) -> list[float]:
    """Return the bias and the weights of logistic regression, by Newton's method.

    Raises:
        DatasetError: the pairs are all true or all false.
    """
    inputs = np.concatenate([sample.inputs for sample in samples])
    true = np.concatenate([sample.true for sample in samples])
    weights = np.concatenate([sample.weights for sample in samples])
    if not len(true):
        return [0.0] * (inputs.shape[1] + 1)
    if true.all() or not true.any():
        raise DatasetError("all pairs of a kind are true, or all are false: give more pairs")
    weights = weights / weights.sum()
    inputs = np.concatenate([np.ones((len(inputs), 1)), inputs], 1)
    found = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(-(inputs @ found)))
        slope = inputs.T @ (weights * (probability - true)) + _RIDGE * found
        curve = (inputs.T * (weights * probability * (1 - probability))) @ inputs
        found = found - np.linalg.solve(curve + _RIDGE * np.eye(len(found)), slope)
    return [float(one) for one in found]
