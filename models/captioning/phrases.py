"""Captions composed of phrases that a picture surely shows.

A phrase names a person, a thing, an action or a place. Each phrase is compared with the picture
separately, and the sure ones are composed: "a sheep in a field". A text that is not true as a whole
is left out, so a picture with few sure phrases gets a short caption or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.checkpoints.model_folder import WEIGHTS, CheckpointError, ModelKind
from hasse.models.checkpoints.weights import weights
from hasse.models.score import penalties_of

if TYPE_CHECKING:
    from hasse.models.checkpoints.checkpoint import Checkpoint
    from hasse.models.embedding_model import Points

PHRASES = "phrases.json"
KIND = ModelKind("phrases", "hasse study photographs phrases", 1, (PHRASES,))

# Lowest probability of a thing, and of a general word for things. With lower ones, captions name
# things that are not in the picture.
SURE, SURE_IN_GENERAL = 0.93, 0.85
# Lowest probability of a limited phrase or a whole caption, and of an action, which is wrong more
# often.
TRUE, ACTING = 0.5, 0.6
_SOMEBODY = "a person"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Phrases by kind.

    Attributes:
        people, things, general: with an article. `general` are words for many things.
        actions: such as "running".
        places: with a preposition.
    """

    people: tuple[str, ...]
    things: tuple[str, ...]
    general: tuple[str, ...]
    actions: tuple[str, ...]
    places: tuple[str, ...]

    @property
    def limited(self) -> list[str]:
        """The texts of limited phrases: few other pictures may be as near to them."""
        acts = [f"{_SOMEBODY} {action}" for action in self.actions]
        return [*self.people, *acts, *self.places]

    @property
    def texts(self) -> list[str]:
        """The texts of all phrases, limited ones first."""
        return [*self.limited, *self.things, *self.general]

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read JSON; raises ValueError or TypeError for anything else."""
        document = json.loads(content)
        return cls(**{name: tuple(map(str, phrases)) for name, phrases in document.items()})

    def to_bytes(self) -> bytes:
        """Return JSON."""
        return json.dumps(asdict(self), indent=1).encode()


@dataclass(frozen=True, slots=True)
class PhraseFile:
    """Phrases of a folder.

    Attributes:
        limits: (L,), for each limited phrase the violation that few other pictures are below.
        fingerprint: SHA-256 of the limits.
    """

    phrases: Phrases
    limits: NDArray[np.float32]
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class GeneratedCaption:
    """A caption that a model generated.

    Attributes:
        violation: of the picture and the text; under the score cosine the penalty.
        probability: how likely the text is to be true.
    """

    text: str
    violation: float
    probability: float


def folder_of(model: Checkpoint) -> Path:
    """Return the folder of a model's phrases."""
    return model.folder / "captioner"


def has_phrases(model: Checkpoint) -> bool:
    """Return whether a model has phrases."""
    return (folder_of(model) / PHRASES).is_file()


def save(phrases: Phrases, limits: NDArray[np.float32], model: Checkpoint) -> None:
    """Write phrases into the folder of a model."""
    encoder = {"name": model.name, "fingerprint": model.fingerprint}
    stored = {"limits": limits}
    KIND.save(folder_of(model), {"encoder": encoder}, stored, {PHRASES: phrases.to_bytes()})


def load(model: Checkpoint) -> PhraseFile:
    """Read the phrases of a model.

    Raises:
        CheckpointError: a file is missing or damaged, or the phrases are for another model.
    """
    folder = folder_of(model)
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
            raise ValueError("the numbers of limits and of phrases differ")
    return PhraseFile(phrases, limits, sums[WEIGHTS])


class PhraseWriter:
    """Writes captions for points of pictures, by composing phrases."""

    def __init__(self, encoder: Checkpoint) -> None:
        """Make a writer from a calibrated model and the phrases in its folder.

        Raises:
            CheckpointError: the model is not calibrated, or `load` fails.
        """
        judge = encoder.judge("image")
        if judge is None:
            raise CheckpointError(f"{encoder.folder} is not calibrated: calibrate it first")
        stored = load(encoder)
        self.encoder, self.fingerprint = encoder, stored.fingerprint
        self._phrases, self._limits, self._judge = stored.phrases, stored.limits, judge

    @cached_property
    def _points(self) -> Points:
        return self.encoder.model.encode_captions(self._phrases.texts)

    def compose(self, picture: NDArray[np.float32]) -> list[str]:
        """Compose texts for a picture (N,) from phrases that it surely shows.

        The most specific texts are first.
        """
        phrases, texts = self._phrases, self._phrases.texts
        violations = self._violations(picture, self._points)
        probabilities = self._probabilities(picture, texts, violations)
        count = len(phrases.limited)
        near = (probabilities[:count] >= TRUE) & (violations[:count] <= self._limits)
        near_phrases = dict(zip(phrases.limited, near.tolist(), strict=True))
        likely = dict(zip(texts, probabilities.tolist(), strict=True))
        return list(dict.fromkeys(_compose(phrases, near_phrases, likely)))

    def choose(
        self, picture: NDArray[np.float32], texts: Sequence[str], points: Points
    ) -> list[GeneratedCaption]:
        """Return the texts that are true as a whole, with points (C, N), in their order."""
        violations = self._violations(picture, points)
        probabilities = self._probabilities(picture, texts, violations).tolist()
        return [
            GeneratedCaption(text, float(violation), probability)
            for text, violation, probability in zip(texts, violations, probabilities, strict=True)
            if probability >= TRUE
        ]

    def describe(self, picture: NDArray[np.float32]) -> list[GeneratedCaption]:
        """Return captions for a picture (N,), the most specific first; none if nothing is sure.

        Each phrase of a caption is sure, and the caption is true as a whole.
        """
        texts = self.compose(picture)
        if not texts:
            return []
        return self.choose(picture, texts, self.encoder.model.encode_captions(texts))

    def _probabilities(
        self, picture: NDArray[np.float32], texts: Sequence[str], violations: Floats
    ) -> Floats:
        premises = np.broadcast_to(picture, (len(texts), len(picture)))
        return self._judge.probabilities(texts, premises, violations).round(4)

    def _violations(self, picture: NDArray[np.float32], points: Points) -> Floats:
        score = self.encoder.model.config.score
        return penalties_of(score, picture, points).astype(np.float64)


def _compose(
    phrases: Phrases, near: Mapping[str, bool], likely: Mapping[str, float]
) -> Iterator[str]:
    """Yield texts of sure phrases, the most specific first."""
    things = _above(SURE, phrases.things, likely)
    people = _above(TRUE, (text for text in phrases.people if near[text]), likely)
    # If a thing is sure and no person is, the action is the thing's: a dolphin swims.
    acts = {f"{_SOMEBODY} {text}": text for text in phrases.actions if people or not things}
    acting = _above(ACTING, (text for text in acts if near[text]), likely)
    places = _above(TRUE, (text for text in phrases.places if near[text]), likely)
    subjects = [
        f"{person} {acts[text]}" for text in acting[:1] for person in (*people[:1], _SOMEBODY)
    ]
    subjects += [*(things or _above(SURE_IN_GENERAL, phrases.general, likely)), *people]
    for place in places[:1]:
        yield from (f"{text} {place}" for text in subjects if place.split()[-1] not in text.split())
    yield from subjects
    yield from (place.split(" ", 1)[1] for place in places)


def _above(lowest: float, phrases: Iterable[str], likely: Mapping[str, float]) -> list[str]:
    """Return the phrases with at least the lowest probability, the likeliest first."""
    sure = [phrase for phrase in phrases if likely[phrase] >= lowest]
    return sorted(sure, key=lambda phrase: -likely[phrase])
