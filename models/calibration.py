"""How likely texts are true of pictures, or follow from texts: one place for all answers.

A violation ranks, but the violation below which a pair counts as true differs from model to
model. `hasse.lab.evaluation.calibrating` measures the probability on validation data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.grounding.part_scores import PartScores
from hasse.models.vocabulary import words

if TYPE_CHECKING:
    from hasse.models.grounding.grounded_texts import GroundedTexts

_ARTICLES = frozenset({"a", "an", "the"})

Floats = NDArray[np.float64]


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
    """

    violations: tuple[float, ...]
    probabilities: tuple[float, ...]
    threshold: float
    pairs: int
    true: int
    word_weight: float = 0.0

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

    def of_texts(self, texts: Sequence[str], violations: ArrayLike) -> Floats:
        """Return the probability of truth of each text at its violation: (T,)."""
        added = [self.word_weight * further_words(text) for text in texts]
        return self.probability(np.asarray(violations, np.float64) + added)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

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
        )


@lru_cache(maxsize=100_000)  # each search by a picture asks for the same captions
def further_words(text: str) -> int:
    """Count the words of a text after the first, without articles."""
    return max(0, sum(word not in _ARTICLES for word in words(text)) - 1)


Known = Calibration | PartScores


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges texts by a model and what was measured of it.

    Attributes:
        model: the model, which is grounded if scores of parts were fitted.
        known: of pictures as premises, or of texts.
    """

    model: EmbeddingModel
    known: Known

    @property
    def reads_points(self) -> bool:
        """Whether violations alone do not tell a probability."""
        return not isinstance(self.known, Calibration)

    def probabilities(
        self, texts: Sequence[str], premises: Points, violations: ArrayLike
    ) -> Floats:
        """Return how likely each text follows from its premise: (P,).

        Args:
            texts: (P,).
            premises: (P, N), points of pictures, or of texts by `as_premises`.
            violations: (P,), of the whole texts. They or the premises are not used.
        """
        if isinstance(self.known, Calibration):
            return self.known.of_texts(texts, violations)
        odds = cast("GroundedTexts", self.model).log_odds(self.known, texts, premises)
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-odds)))

    def table(self, texts: Sequence[str], premises: Points, violations: Points) -> Floats:
        """Return how likely each text follows from each premise: (P, T).

        Args:
            texts: (T,).
            premises: (P, N).
            violations: (P, T).
        """
        rows, columns = np.indices((len(premises), len(texts))).reshape(2, -1)
        found = self.probabilities(
            [texts[column] for column in columns], premises[rows], violations.ravel()
        )
        return found.reshape(len(premises), len(texts))


@dataclass(frozen=True, slots=True)
class Calibrations:
    """A model's calibrations; None where there are no pairs to measure.

    Attributes:
        image: whether a caption is true of an image.
        caption: whether one caption entails another. Known for scenes only.
    """

    image: Known | None = None
    caption: Known | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        curves = {"image": self.image, "caption": self.caption}
        return {name: None if curve is None else curve.to_json() for name, curve in curves.items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read the result of `to_json`; raises TypeError, KeyError or ValueError.

        Earlier versions wrote curves of other kinds. Their models count as not calibrated.
        """
        return cls(_known(document["image"]), _known(document["caption"]))


def _known(document: dict[str, Any] | None) -> Known | None:
    if document is None or document.get("length_weight") or document.get("things"):
        return None
    return (PartScores if "phrases" in document else Calibration).from_json(document)
