"""A captioner and its encoder together: from the point of a picture to captions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.captioning import DRAWS, phrases
from hasse.models.captioning.phrases import PhraseWriter
from hasse.models.captioning.ranking import Judged, WrittenCaption, judge, rank, rarity_of
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import kind_of
from hasse.models.embedding_model import Points
from hasse.models.grounding.grounded_texts import GroundedTexts

if TYPE_CHECKING:
    from hasse.models.captioning.captioner import Candidates
    from hasse.models.captioning.checkpoint import CaptionerCheckpoint


def folder_of(model: Checkpoint) -> Path:
    """Return where the captioner of a model is, unless another folder is named."""
    return model.folder / "captioner"


class Writer:
    """Writes captions for pictures, given by their points."""

    def __init__(self, encoder: Checkpoint, captioner: CaptionerCheckpoint) -> None:
        """Take both.

        Of a grounded model, the captioner knows the points of the trained model below it.
        """
        self.encoder, self.captioner = encoder, captioner
        self._judge = encoder.base or encoder
        self._references = captioner.captioner.references.numpy()
        self._rarity: dict[str, float] = {}  # of the subjects so far

    @classmethod
    def of(cls, encoder: Checkpoint, folder: Path | None = None) -> Self:
        """Load the captioner in a folder, by default that in the folder of the model.

        Raises:
            CheckpointError: there is none, it cannot be used, or it is that of another model.
        """
        from hasse.models.captioning import checkpoint  # with torch

        return cls(encoder, checkpoint.load(folder or folder_of(encoder), encoder))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the captioner's weights."""
        return self.captioner.fingerprint

    def draw(self, picture: NDArray[np.float32], draws: int = DRAWS) -> Candidates:
        """Draw texts for a picture (N,)."""
        return self.captioner.captioner.draw(self._own(picture[None])[0], draws)

    def judged(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> Judged:
        """Judge how likely texts with these points (C, N) are true, and how specific they are."""
        return judge(
            self._own(picture[None])[0],
            candidates,
            self._own(points),
            self._references,
            self._judge.model.config.score,
            self._judge.calibration.image,
            self.captioner.judgement,
            self._rarities(candidates.subjects),
        )

    def ranked(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> list[WrittenCaption]:
        """Return texts with these points (C, N), the best first, as people write them."""
        ranked = rank(self.judged(picture, candidates, points), candidates)
        return [replace(one, text=spelled(one.text)) for one in ranked]

    def describe(self, picture: NDArray[np.float32], draws: int = DRAWS) -> list[WrittenCaption]:
        """Return captions for a picture (N,), the best first."""
        candidates = self.draw(picture, draws)
        points = self.encoder.model.encode_captions(candidates.texts)
        return self.ranked(picture, candidates, points)

    def _own(self, points: Points) -> Points:
        """Return points in the space that the captioner knows."""
        model = self.encoder.model
        return model.in_base(points) if isinstance(model, GroundedTexts) else points

    def _rarities(self, subjects: Sequence[str]) -> Mapping[str, float]:
        """Return how rare the things are that texts are about, each measured once."""
        encoder, new = self._judge, sorted({*subjects} - {""} - self._rarity.keys())
        if new and encoder.calibration.image is not None:
            self._rarity |= rarity_of(
                new,
                encoder.model.encode_captions([f"a {subject}" for subject in new]),
                self._references,
                encoder.model.config.score,
                encoder.calibration.image,
            )
        return self._rarity


Describer: TypeAlias = Writer | PhraseWriter  # what writes captions for pictures


def writer_of(encoder: Checkpoint, folder: Path | None = None) -> Describer:
    """Load what writes captions, from a folder, by default that in the folder of the model.

    Raises:
        CheckpointError: there is none, it cannot be used, or it is that of another model.
    """
    found = folder or folder_of(encoder)
    if kind_of(found) == phrases.KIND.name:
        return PhraseWriter(encoder, phrases.load(found, encoder))
    return Writer.of(encoder, found)


def spelled(text: str) -> str:
    """Return a text with its apostrophes: the words "a", "dog", "s", "tail" are "a dog's tail"."""
    return re.sub(r" s\b", "'s", text)
