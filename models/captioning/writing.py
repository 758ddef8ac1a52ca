"""A captioner and its encoder together: from the point of a picture to captions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.captioning import DRAWS
from models.captioning.captioner import Candidates
from models.captioning.checkpoint import CaptionerCheckpoint
from models.captioning.ranking import Judged, Ranking, WrittenCaption, judge, rank
from models.checkpoints.checkpoint import Checkpoint
from models.model import Points


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes captions for pictures, given by their points."""

    encoder: Checkpoint
    captioner: CaptionerCheckpoint

    def draw(self, picture: NDArray[np.float32], draws: int = DRAWS) -> Candidates:
        """Draw texts for a picture (N,)."""
        return self.captioner.captioner.draw(picture, draws)

    def judged(
        self, picture: NDArray[np.float32], candidates: Candidates, points: Points
    ) -> Judged:
        """Tell how true texts with these points (C, N) are, and how much they say."""
        return judge(
            picture,
            candidates,
            points,
            self.captioner.captioner.references.numpy(),
            self.encoder.model.config.score,
            self.encoder.calibration.image,
            self.captioner.judgement,
        )

    def ranked(
        self,
        picture: NDArray[np.float32],
        candidates: Candidates,
        points: Points,
        by: Ranking = "order",
    ) -> list[WrittenCaption]:
        """Return texts with these points (C, N), the best first."""
        return rank(self.judged(picture, candidates, points), candidates, by)

    def best(self, judged: Judged, candidates: Candidates, by: Ranking) -> str:
        """Return the best text."""
        return rank(judged, candidates, by)[0].text

    def describe(
        self, picture: NDArray[np.float32], draws: int = DRAWS, by: Ranking = "order"
    ) -> list[WrittenCaption]:
        """Return captions for a picture (N,), the best first."""
        candidates = self.draw(picture, draws)
        points = self.encoder.model.encode_captions(candidates.texts)
        return self.ranked(picture, candidates, points, by)
