"""The probability that a picture shows a text: that of the least probable of its parts.

Each part has a score, the logarithm of its odds. A word with evidence has that of its evidence. A
phrase has a weighted sum of its violation, over learned coordinates, and of its words' evidence. A
text has the least score of its parts, so it is at most as probable as what follows from it. A part
is never likely if no word of it has evidence, or none that says what its thing does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.grounding.demands import Told, Unit

MOST_UNITS = 5  # longer phrases have the weights of this many
_SHORT = 3  # units in which a thing and what it does stand, in a text or its first part
UNTOLD = -0.05  # the largest score of what has no evidence: less likely true than false

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """The weights of a phrase's score.

    Attributes:
        bias: of every phrase.
        violation: of its violation.
        least, mean: of the least and of the mean score of its words that have evidence.
        untold: of the share of its words that have none.
    """

    bias: float
    violation: float
    least: float = 0.0
    mean: float = 0.0
    untold: float = 0.0


@dataclass(frozen=True, slots=True)
class PartScores:
    """The weights of all scores.

    Attributes:
        taught, classes: slope and bias of the score of one word, by its evidence.
        phrases: of phrases of one word without evidence, of two words, and so on.
        pairs: the number of pairs in the measurement.
        true: the number of true ones among them.
    """

    taught: tuple[float, float]
    classes: tuple[float, float]
    phrases: tuple[Weights, ...]
    pairs: int
    true: int

    def __post_init__(self) -> None:
        """Refuse a score of evidence that falls, with which order would be lost (ValueError)."""
        if len(self.phrases) != MOST_UNITS or min(self.taught[0], self.classes[0]) < 0:
            raise ValueError(f"scores have to rise with evidence, and {MOST_UNITS} have weights")

    def score(self, units: Sequence[Unit], violations: Floats, evidence: Floats) -> Floats:
        """Return the score of a part for premises: violations (P,), evidence (P, K) -> (P,)."""
        if len(units) == 1 and (told := units[0].told):
            score = self._word(told, evidence)
        else:
            bias, *weights = self.phrases[min(len(units), MOST_UNITS) - 1]
            score = bias + self.inputs(units, violations, evidence) @ weights
            if is_untold(units):
                score = np.minimum(score, UNTOLD)
        if len(units) == 1:
            for above in units[0].above:
                score = np.minimum(score, self._word(above, evidence))
        return score

    def inputs(self, units: Sequence[Unit], violations: Floats, evidence: Floats) -> Floats:
        """Return what the weights of a phrase's score are of, without the bias: (P, 4)."""
        words = [self._word(unit.told, evidence) for unit in units if unit.told]
        untold = np.full(len(violations), 1 - len(words) / len(units))
        least = mean = np.zeros(len(violations))
        if words:
            least, mean = reduce(np.minimum, words), reduce(np.add, words) / len(words)
        return np.stack([violations, least, mean, untold], 1)

    def _word(self, told: Told, evidence: Floats) -> Floats:
        """Return the score of a word by its evidence: (P, K) -> (P,)."""
        (taught, taught_bias), (classes, classes_bias) = self.taught, self.classes
        scores = []
        if told.taught:
            scores.append(taught * evidence[:, told.taught].max(1) + taught_bias)
        if told.classes:
            scores.append(classes * evidence[:, told.classes].min(1) + classes_bias)
        return reduce(np.maximum, scores)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "taught": self.taught,
            "classes": self.classes,
            "phrases": self.phrases,
            "pairs": self.pairs,
            "true": self.true,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`; raises TypeError, KeyError or ValueError."""
        (taught, taught_bias), (classes, classes_bias) = document["taught"], document["classes"]
        return cls(
            (float(taught), float(taught_bias)),
            (float(classes), float(classes_bias)),
            tuple(Weights(*map(float, weights)) for weights in document["phrases"]),
            int(document["pairs"]),
            int(document["true"]),
        )


def is_untold(units: Sequence[Unit]) -> bool:
    """Return whether no picture has evidence of what a part says, or of what its thing does.

    That is a word right after a noun, as in "a woman knitting": one that is no noun.
    """
    does = any(
        thing.is_noun and word.start == thing.end and not (word.is_noun or word.told)
        for thing, word in pairwise(units[:_SHORT])
    )
    return does or not any(unit.told for unit in units)
