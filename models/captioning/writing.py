"""Writers of captions: from the point of a picture to captions, by a captioner or by phrases."""

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
from hasse.models.captioning.ranking import (
    CandidateScores,
    GeneratedCaption,
    judge,
    rank,
    rarity_of,
)
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.checkpoints.model_folder import kind_of
from hasse.models.embedding_model import Points
from hasse.models.grounding.grounded_texts import GroundedTexts

if TYPE_CHECKING:
    from hasse.models.captioning.captioner import Candidates
    from hasse.models.captioning.checkpoint import CaptionerCheckpoint


def folder_of(model: Checkpoint) -> Path:
    """Return the default folder of a model's captioner."""
    return model.folder / "captioner"


class Writer:
    """Writes captions for points of pictures, by a captioner."""

    def __init__(self, encoder: Checkpoint, captioner: CaptionerCheckpoint) -> None:
        """Make a writer from a model and its captioner.

        The captioner of a grounded model reads points of the trained model below it.
        """
        self.encoder, self.captioner = encoder, captioner
        self._judge = encoder.base or encoder
        self._references = captioner.captioner.references.numpy()
        self._rarity: dict[str, float] = {}  # of the subjects so far

    @classmethod
    def load(cls, encoder: Checkpoint, folder: Path | None = None) -> Self:
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
        return self.captioner.captioner.draw(self._in_own_space(picture[None])[0], draws)

    def judge(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> CandidateScores:
        """Score texts with these points (C, N): how likely they are true, and how specific."""
        return judge(
            self._in_own_space(picture[None])[0],
            candidates,
            self._in_own_space(points),
            self._references,
            self._judge.model.config.score,
            self._judge.calibration.image,
            self.captioner.judgement,
            self._rarities(candidates.subjects),
        )

    def rank(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> list[GeneratedCaption]:
        """Return captions from texts with these points (C, N), the best first."""
        captions = rank(self.judge(picture, candidates, points), candidates)
        return [replace(caption, text=with_apostrophes(caption.text)) for caption in captions]

    def describe(self, picture: NDArray[np.float32], draws: int = DRAWS) -> list[GeneratedCaption]:
        """Return captions for a picture (N,), the best first."""
        candidates = self.draw(picture, draws)
        points = self.encoder.model.encode_captions(candidates.texts)
        return self.rank(picture, candidates, points)

    def _in_own_space(self, points: Points) -> Points:
        """Return points in the captioner's space."""
        model = self.encoder.model
        return model.in_base(points) if isinstance(model, GroundedTexts) else points

    def _rarities(self, subjects: Sequence[str]) -> Mapping[str, float]:
        """Return the rarity of subjects; each is measured once."""
        encoder, new_subjects = self._judge, sorted({*subjects} - {""} - self._rarity.keys())
        if new_subjects and encoder.calibration.image is not None:
            self._rarity |= rarity_of(
                new_subjects,
                encoder.model.encode_captions([f"a {subject}" for subject in new_subjects]),
                self._references,
                encoder.model.config.score,
                encoder.calibration.image,
            )
        return self._rarity


Describer: TypeAlias = Writer | PhraseWriter


def load_writer(encoder: Checkpoint, folder: Path | None = None) -> Describer:
    """Load the writer of captions in a folder, by default the one in the model's folder.

    Raises:
        CheckpointError: there is none, it cannot be used, or it is that of another model.
    """
    folder = folder or folder_of(encoder)
    if kind_of(folder) == phrases.KIND.name:
        return PhraseWriter(encoder, phrases.load(folder, encoder))
    return Writer.load(encoder, folder)


def with_apostrophes(text: str) -> str:
    """Put apostrophes into a text: "a dog s tail" becomes "a dog's tail"."""
    return re.sub(r" s\b", "'s", text)
