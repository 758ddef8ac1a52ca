"""The probability that a caption is true, by its violation.

A violation ranks, but the violation below which a pair counts as true differs from model to
model. `hasse.lab.evaluation.calibrating` measures the probability on validation data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.models.vocabulary import words

# Mass of a text that names one thing with many things above it. Few texts have more.
LARGE_MASS = 3.0

_ARTICLES = frozenset({"a", "an", "the"})

Floats = NDArray[np.float64]
Mass = TypeVar("Mass", float, Floats)
# Whether a text only names things, and the number to add to its violations.
Shift = tuple[bool, float]


class Traits(Protocol):
    """What a grounded model knows of a text; see `TextTraits` of `grounding`."""

    @property
    def mass(self) -> float: ...
    @property
    def untaught(self) -> float: ...


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
    traits: Callable[[str], Traits] | None = field(default=None, repr=False, compare=False)
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

    def with_traits(self, traits: Callable[[str], Traits]) -> Self:
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
