"""Writes captions by a captioner: from the point of a picture to texts, the best first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.calibration import Calibration
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.models.grounding.grounded_texts import GroundedTexts
from hasse.studies.captioner import DRAWS, checkpoint
from hasse.studies.captioner.captioner import Candidates
from hasse.studies.captioner.checkpoint import CaptionerCheckpoint
from hasse.studies.captioner.ranking import (
    CandidateScores,
    DrawnCaption,
    judge,
    rank,
    rarity_of,
)


class Writer:
    """Writes captions for points of pictures, by a captioner."""

    def __init__(self, encoder: Checkpoint, captioner: CaptionerCheckpoint) -> None:
        """Make a writer from a model and its captioner.

        The captioner of a grounded model reads points of the trained model below it.
        """
        self.encoder, self.captioner = encoder, captioner
        self._judge = encoder.base or encoder
        known = self._judge.calibration.image
        self._calibration = known if isinstance(known, Calibration) else None
        self._references = captioner.captioner.references.numpy()
        self._rarity: dict[str, float] = {}  # of the subjects so far

    @classmethod
    def load(cls, encoder: Checkpoint, folder: Path) -> Self:
        """Load the captioner in a folder.

        Raises:
            CheckpointError: there is none, it cannot be used, or it is that of another model.
        """
        return cls(encoder, checkpoint.load(folder, encoder))

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
            self._calibration,
            self.captioner.judgement,
            self._rarities(candidates.subjects),
        )

    def rank(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> list[DrawnCaption]:
        """Return captions from texts with these points (C, N), the best first."""
        captions = rank(self.judge(picture, candidates, points), candidates)
        return [replace(caption, text=with_apostrophes(caption.text)) for caption in captions]

    def describe(self, picture: NDArray[np.float32], draws: int = DRAWS) -> list[DrawnCaption]:
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
        if new_subjects and self._calibration is not None:
            self._rarity |= rarity_of(
                new_subjects,
                encoder.model.encode_captions([f"a {subject}" for subject in new_subjects]),
                self._references,
                encoder.model.config.score,
                self._calibration,
            )
        return self._rarity


def with_apostrophes(text: str) -> str:
    """Put apostrophes into a text: "a dog s tail" becomes "a dog's tail"."""
    return re.sub(r" s\b", "'s", text)
