"""The half of a grounded model that encodes captions, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import Points
from hasse.models.encoders.model_config import ImagePooling
from hasse.models.grounding.demands import Demands
from hasse.models.score import Score
from hasse.models.text_model import TextModel
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.models.model import OrderEmbedding

# A coordinate without evidence that is demanded adds its square to a violation.
SCALE = math.sqrt(0.2)
# Length of the learned part of a text that only names things: evidence tells more of them.
NAMED = 0.8


@dataclass(frozen=True, slots=True)
class GroundedConfig:
    """The shape of points, as `ModelConfig` has it.

    Attributes:
        backbone: the name of the encoder of pictures.
        dimension: N, the kept coordinates and those of things.
    """

    backbone: str
    dimension: int
    score: Score = "order"
    image_pooling: ImagePooling = "regions"
    length: str = "unit"


class GroundedTexts:
    """Encodes captions to points with coordinates that stand for things.

    Attributes:
        base: the trained model, or the half of it that encodes captions.
        demands: what phrases demand.
        kept: (M,), rising, the coordinates of the trained model's points that are kept.
    """

    def __init__(
        self, base: TextModel | OrderEmbedding, kept: NDArray[np.integer], demands: Demands
    ) -> None:
        """Take the coordinates of the trained model's points that are kept: (M,), rising."""
        self.base, self.demands = base, demands
        self.kept = np.asarray(kept, np.int64)
        self.config = GroundedConfig(base.config.backbone, len(kept) + demands.size)
        self.preprocessing = base.preprocessing

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of captions."""
        return self.base.vocabulary

    @property
    def references(self) -> Points | None:
        """Points of training pictures, as if they showed all there is: (R, N), or None.

        What they show was not recorded, so they compare texts by the learned part alone.
        """
        found = self.base.references
        if found is None:
            return None
        shown = np.full((len(found), self.demands.size), SCALE, np.float32)
        return np.concatenate([self._learned(found), shown], 1)

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        learned = self._learned(self.base.encode_captions(texts, batch_size))
        points = np.empty((len(texts), self.config.dimension), np.float32)
        for row, text in enumerate(texts):
            demand = self.demands.of(text)
            length = np.float32(NAMED if demand.names_things else 1.0)
            points[row, : len(self.kept)] = learned[row] * length
            points[row, len(self.kept) :] = demand.row * np.float32(SCALE)
        return points

    def mass(self, text: str) -> float:
        """Return the largest violation of a text that only names things; else 0."""
        demand = self.demands.of(text)
        if not demand.names_things:
            return 0.0
        return NAMED**2 + SCALE**2 * float(np.square(demand.row).sum())

    def as_premises(self, points: Points) -> Points:
        """Return the points of captions as things that others may follow from: (B, N).

        What a caption says is there, is there, however small it may be in a picture.
        """
        found = points.copy()
        things = found[:, len(self.kept) :]
        things[things > 0] = SCALE
        return found

    def in_base(self, points: Points) -> Points:
        """Return points in the space of the trained model: (B, N) -> (B, its dimension)."""
        found = np.zeros((len(points), self.base.config.dimension), np.float32)
        found[:, self.kept] = points[:, : len(self.kept)]
        return found

    def _learned(self, points: Points) -> Points:
        """Return the kept coordinates of points of the trained model, as long as the whole."""
        # Row by row in memory, and each row summed up alone: otherwise sums round by the number of
        # rows.
        kept = np.take(points, self.kept, axis=1)
        whole = np.sqrt(np.square(points).sum(1, keepdims=True))
        part = np.sqrt(np.square(kept).sum(1, keepdims=True))
        learned: Points = kept * (whole / np.maximum(part, 1e-9))
        return learned
