"""A trained model with coordinates that stand for things.

A point has two parts. The first is the point of a trained model, of which the coordinates that say
most are kept. The second has a coordinate for each set of classes: of a picture, the evidence that
it shows one of them; of a text, what it demands. The violation over all coordinates is the sum of
both parts', so that search, joins and bounds work as for any other model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from hasse.models.embedding_model import Points, encode_blocks, encode_pictures, in_full_batches
from hasse.models.grounding.demands import Demands
from hasse.models.grounding.evidence import Evidence, classifier_of
from hasse.models.grounding.grounded_texts import SCALE, GroundedTexts
from hasse.models.model import OrderEmbedding

if TYPE_CHECKING:
    from hasse.models.encoders.backbone import Backbone


class GroundedModel(GroundedTexts, nn.Module):
    """Captions and pictures to points with coordinates that stand for things.

    Attributes:
        base: the trained model.
        kept: (M,), rising, the coordinates of its points that are kept.
        evidence: reads evidence off features.
    """

    base: OrderEmbedding
    kept: Tensor

    def __init__(self, base: OrderEmbedding, kept: Tensor, sets: Tensor, demands: Demands) -> None:
        """Take a model and its grounding; `sets` is (classes, K).

        Raises:
            BackboneError: the model's network has no classes that are synsets, or others.
            ValueError: the parts do not fit each other.
        """
        nn.Module.__init__(self)
        shape = base.config
        if shape.score != "order" or shape.image_pooling != "regions":
            raise ValueError("only a model of score order with features of regions is grounded")
        if demands.size != sets.shape[1] or not 0 <= int(kept.min()) <= int(kept.max()):
            raise ValueError("the phrases demand other coordinates than there are")
        GroundedTexts.__init__(self, base, kept.numpy(), demands)
        self.register_buffer("kept", kept)
        self.evidence = Evidence(sets, classifier_of(shape.backbone))

    @property
    def backbone(self) -> Backbone:
        """The network from pictures to features."""
        return self.base.backbone

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.base.device

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode features of regions: (B, REGIONS, F) -> (B, N)."""
        points = self.base.feature_points(features)
        learned = points[:, self.kept]
        scale = points.norm(dim=1) / learned.norm(dim=1).clamp(min=1e-9)
        return torch.cat([learned * scale[:, None], SCALE * self.evidence(features)], 1)

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        return in_full_batches(self.feature_points, self.base.images.features(pixels))

    def encode_images(self, pictures: Sequence[Image.Image], batch_size: int = 32) -> Points:
        """Return the points of pictures, in their order: (B, N) float32."""
        return encode_pictures(self, pictures, batch_size)

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of cached features: (B, REGIONS, F) -> (B, N) float32."""
        return encode_blocks(self, self.feature_points, features, batch_size)
