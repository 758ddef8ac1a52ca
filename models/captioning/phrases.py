"""Captions put together from phrases that a picture surely shows.

A phrase names somebody, a thing, what somebody does, or where. Each is compared with the picture
by itself, and those that are sure are put together: "a sheep in a field". A text that is not true
as a whole is left out, so a picture of which little is sure gets a short caption or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.captioning.ranking import WrittenCaption
from hasse.models.checkpoints.model_folder import WEIGHTS, CheckpointError, ModelKind
from hasse.models.checkpoints.weights import tensors, weights
from hasse.models.score import penalties_between, penalties_of

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.models.embedding_model import Points

PHRASES = "phrases.json"
KIND = ModelKind("phrases", "hasse study photographs phrases", 1, (PHRASES,))

# Probabilities from which a thing, and a general word for things, are sure by themselves. Below
# them many a picture without the thing is taken for one with it.
SURE, SURE_IN_GENERAL = 0.93, 0.85
# Of a phrase that few other pictures are as near to, and of a whole caption; what somebody does is
# taken for something else more often.
TRUE, ACTING = 0.5, 0.6
# Share of other pictures that may be as near to what somebody does, or where.
NEAREST = 0.01
_SOMEBODY = "a person"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Phrases by what they say.

    Attributes:
        people, things, general: with an article. `general` are words for many things.
        actions: what somebody does, as "running".
        places: with a preposition.
    """

    people: tuple[str, ...]
    things: tuple[str, ...]
    general: tuple[str, ...]
    actions: tuple[str, ...]
    places: tuple[str, ...]

    @property
    def limited(self) -> list[str]:
        """The texts of phrases that few pictures have to be nearer to."""
        acts = [f"{_SOMEBODY} {action}" for action in self.actions]
        return [*self.people, *acts, *self.places]

    @property
    def texts(self) -> list[str]:
        """The texts of all phrases, those of limited ones first."""
        return [*self.limited, *self.things, *self.general]

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read JSON; raises ValueError or TypeError for anything else."""
        found = json.loads(content)
        return cls(**{name: tuple(map(str, phrases)) for name, phrases in found.items()})

    def to_bytes(self) -> bytes:
        """Return JSON."""
        return json.dumps(asdict(self), indent=1).encode()


@dataclass(frozen=True, slots=True)
class PhraseFile:
    """Phrases of a folder.

    Attributes:
        limits: (L,), the violation that a share of `NEAREST` of other pictures is below, of each
            of the limited phrases.
        fingerprint: SHA-256 of the limits.
    """

    phrases: Phrases
    limits: NDArray[np.float32]
    fingerprint: str = ""


def limits_of(phrases: Phrases, pictures: Points, model: Checkpoint) -> NDArray[np.float32]:
    """Return the limits of phrases: pictures (P, N) that show all kinds of things -> (L,)."""
    points = model.model.encode_captions(phrases.limited)
    found = penalties_between(model.model.config.score, pictures, points)
    return np.quantile(found, NEAREST, axis=0).astype(np.float32)


def save(folder: Path, phrases: Phrases, limits: NDArray[np.float32], model: Checkpoint) -> None:
    """Write phrases for a model."""
    encoder = {"name": model.name, "fingerprint": model.fingerprint}
    stored = tensors({"limits": limits})
    KIND.save(folder, {"encoder": encoder}, stored, {PHRASES: phrases.to_bytes()})


def load(folder: Path, model: Checkpoint) -> PhraseFile:
    """Read the phrases for a model.

    Raises:
        CheckpointError: a file is missing or damaged, or they were made for another model.
    """
    with KIND.open(folder) as (config, sums):
        if config["encoder"]["fingerprint"] != model.fingerprint:
            raise CheckpointError(
                f"{folder} has phrases for another model than {model.folder}: make them by "
                f"'{KIND.command}'"
            )
        phrases = Phrases.read((folder / PHRASES).read_bytes())
        with weights(folder) as arrays:
            limits = arrays["limits"]
        if limits.shape != (len(phrases.limited),):
            raise ValueError("there is not a limit for each phrase")
    return PhraseFile(phrases, limits, sums[WEIGHTS])


@dataclass(frozen=True, slots=True)
class Composed:
    """Texts that were put together for a picture, those that say most first."""

    texts: list[str]


class PhraseWriter:
    """Writes captions for pictures, given by their points."""

    def __init__(self, encoder: Checkpoint, stored: PhraseFile) -> None:
        """Take a calibrated model and phrases for it.

        Raises:
            CheckpointError: the model is not calibrated.
        """
        known = encoder.calibration.image
        if known is None:
            raise CheckpointError(f"{encoder.folder} is not calibrated: calibrate it first")
        self.encoder, self.fingerprint = encoder, stored.fingerprint
        self._phrases, self._limits, self._calibration = stored.phrases, stored.limits, known

    @cached_property
    def _points(self) -> Points:
        return self.encoder.model.encode_captions(self._phrases.texts)

    def draw(self, picture: NDArray[np.float32], draws: int = 0) -> Composed:
        """Put texts together for a picture (N,), from phrases that it surely shows.

        At most `draws`, or all of them if that is 0.
        """
        phrases, texts = self._phrases, self._phrases.texts
        violations = self._violations(picture, self._points)
        each = np.array(self._calibration.of_each(texts, violations))
        limited = len(phrases.limited)
        near = (each[:limited] >= TRUE) & (violations[:limited] <= self._limits)
        first = dict(zip(phrases.limited, near.tolist(), strict=True))
        likely = dict(zip(texts, each.tolist(), strict=True))
        composed = list(dict.fromkeys(_composed(phrases, first, likely)))
        return Composed(composed[:draws] if draws else composed)

    def ranked(
        self, picture: NDArray[np.float32], drawn: Composed, points: Points
    ) -> list[WrittenCaption]:
        """Return the texts that are true as a whole, with points (C, N), in their order."""
        violations = self._violations(picture, points)
        each = self._calibration.of_each(drawn.texts, violations)
        return [
            WrittenCaption(text, float(violation), probability, in_training=False)
            for text, violation, probability in zip(drawn.texts, violations, each, strict=True)
            if probability >= TRUE
        ]

    def describe(self, picture: NDArray[np.float32], draws: int = 0) -> list[WrittenCaption]:
        """Return captions for a picture (N,), those that say most first; none if nothing is sure.

        What they say is sure part by part, and each is true as a whole.
        """
        drawn = self.draw(picture, draws)
        if not drawn.texts:
            return []
        return self.ranked(picture, drawn, self.encoder.model.encode_captions(drawn.texts))

    def _violations(self, picture: NDArray[np.float32], points: Points) -> Floats:
        score = self.encoder.model.config.score
        return penalties_of(score, picture, points).astype(np.float64)


def _composed(
    phrases: Phrases, near: Mapping[str, bool], likely: Mapping[str, float]
) -> Iterator[str]:
    """Yield texts of phrases that are sure, those that say most first."""
    things = _above(SURE, phrases.things, likely)
    people = _above(TRUE, (one for one in phrases.people if near[one]), likely)
    # Where a thing is sure and nobody is, the thing does it: a dolphin, and nobody, is in the sea.
    acts = {f"{_SOMEBODY} {one}": one for one in phrases.actions if people or not things}
    acting = _above(ACTING, (one for one in acts if near[one]), likely)
    places = _above(TRUE, (one for one in phrases.places if near[one]), likely)
    subjects = [f"{who} {acts[one]}" for one in acting[:1] for who in (*people[:1], _SOMEBODY)]
    subjects += [*(things or _above(SURE_IN_GENERAL, phrases.general, likely)), *people]
    for place in places[:1]:
        yield from (f"{one} {place}" for one in subjects if place.split()[-1] not in one.split())
    yield from subjects
    yield from (place.split(" ", 1)[1] for place in places)


def _above(least: float, phrases: Iterable[str], likely: Mapping[str, float]) -> list[str]:
    """Return the phrases of at least a probability, the likeliest first."""
    sure = [one for one in phrases if likely[one] >= least]
    return sorted(sure, key=lambda one: -likely[one])
