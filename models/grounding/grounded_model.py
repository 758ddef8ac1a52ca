"""A trained model with coordinates that stand for things.

A point has two parts. The first is the point of a trained model, of which the coordinates that say
most are kept. The second has a coordinate for each set of classes: of a picture, the evidence that
it shows one of them; of a text, what it demands. The violation over all coordinates is the sum of
both parts', so that search, joins and bounds work as for any other model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from hasse.models.embedding_model import Points, encode_blocks, encode_pictures
from hasse.models.encoders.image_encoder import ImagePooling
from hasse.models.grounding.demands import Demands
from hasse.models.grounding.evidence import Evidence, classifier_of
from hasse.models.model import OrderEmbedding
from hasse.models.score import Score
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.models.encoders.backbone import Backbone

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


class GroundedModel(nn.Module):
    """Captions and pictures to points with coordinates that stand for things.

    Attributes:
        base: the trained model.
        kept: (M,), rising, the coordinates of its points that are kept.
        demands: what phrases demand.
        evidence: reads evidence off features; missing where the model was made without pictures.
    """

    kept: Tensor
    evidence: Evidence

    def __init__(
        self,
        base: OrderEmbedding,
        kept: Tensor,
        sets: Tensor,
        demands: Demands,
        *,
        with_pictures: bool = True,
    ) -> None:
        """Take a model and its grounding; `sets` is (classes, K).

        Raises:
            BackboneError: the model's network has no classes that are synsets, or others.
            ValueError: the parts do not fit each other.
        """
        super().__init__()
        shape = base.config
        if shape.score != "order" or shape.image_pooling != "regions":
            raise ValueError("only a model of score order with features of regions is grounded")
        if demands.size != sets.shape[1] or not 0 <= int(kept.min()) <= int(kept.max()):
            raise ValueError("the phrases demand other coordinates than there are")
        self.base, self.demands = base, demands
        self.register_buffer("kept", kept)
        self._kept = kept.numpy().copy()
        if with_pictures:
            self.evidence = Evidence(sets, classifier_of(shape.backbone))
        self.config = GroundedConfig(shape.backbone, len(kept) + sets.shape[1])
        self.preprocessing = base.preprocessing

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of captions."""
        return self.base.vocabulary

    @property
    def backbone(self) -> Backbone:
        """The network from pictures to features."""
        return self.base.backbone

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.base.device

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

    def for_inference(self) -> None:
        """Prepare to encode only: weights and device may not change any longer."""
        self.base.for_inference()

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode features of regions: (B, REGIONS, F) -> (B, N)."""
        points = self.base.feature_points(features)
        learned = points[:, self.kept]
        scale = points.norm(dim=1) / learned.norm(dim=1).clamp(min=1e-9)
        return torch.cat([learned * scale[:, None], SCALE * self.evidence(features)], 1)

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self.feature_points(self.base.images.features(pixels))

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        learned = self._learned(self.base.encode_captions(texts, batch_size))
        points = np.empty((len(texts), self.config.dimension), np.float32)
        for row, text in enumerate(texts):
            demand = self.demands.of(text)
            length = np.float32(NAMED if demand.names_things else 1.0)
            points[row, : len(self._kept)] = learned[row] * length
            points[row, len(self._kept) :] = demand.row * np.float32(SCALE)
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
        things = found[:, len(self._kept) :]
        things[things > 0] = SCALE
        return found

    def encode_images(self, pictures: Sequence[Image.Image], batch_size: int = 32) -> Points:
        """Return the points of pictures, in their order: (B, N) float32."""
        return encode_pictures(self, pictures, batch_size)

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of cached features: (B, REGIONS, F) -> (B, N) float32."""
        return encode_blocks(self, self.feature_points, features, batch_size)

    def in_base(self, points: Points) -> Points:
        """Return points in the space of the trained model: (B, N) -> (B, its dimension)."""
        found = np.zeros((len(points), self.base.config.dimension), np.float32)
        found[:, self._kept] = points[:, : len(self._kept)]
        return found

    def _learned(self, points: Points) -> Points:
        """Return the kept coordinates of points of the trained model, as long as the whole."""
        # Row by row in memory, and each row summed up alone: otherwise sums round by the number of
        # rows.
        kept = np.take(points, self._kept, axis=1)
        whole = np.sqrt(np.square(points).sum(1, keepdims=True))
        part = np.sqrt(np.square(kept).sum(1, keepdims=True))
        learned: Points = kept * (whole / np.maximum(part, 1e-9))
        return learned
