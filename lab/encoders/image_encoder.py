"""Pictures to points: a torchvision network, then one linear map (Vendrov et al., equation 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hasse.lab.encoders.mixed_precision import low_precision_matmul
from hasse.lab.encoders.pooling import pool_regions
from hasse.models.encoders.model_config import ImagePooling

if TYPE_CHECKING:
    from hasse.lab.encoders.backbone import Backbone


class ImageEncoder(nn.Module):
    """Maps pixels or precomputed features to the embedding space.

    The network is frozen when training reads cached features, and learns when it reads pixels. In
    both cases it is part of the model, so that a checkpoint can encode a picture.

    Attributes:
        pooling: from the network's last grid to one point; see `ModelConfig.image_pooling`.
        signed: whether points keep their signs.
        projection: the linear map.
        matmul_dtype: the type of the projection's matrix products; bfloat16 trains faster.
    """

    def __init__(
        self,
        backbone: Backbone,
        dimension: int,
        *,
        pooling: ImagePooling = "average",
        signed: bool = False,
    ) -> None:
        """Make an encoder from a network, without its average unless `pooling` is "average".

        Raises:
            BackboneError: the network does not end in the average of a grid.
        """
        super().__init__()
        self.backbone = backbone if pooling == "average" else backbone.keep_grid()
        self.pooling = pooling
        self.signed = signed
        self.matmul_dtype = torch.float32
        self.projection = nn.Linear(backbone.feature_dimension, dimension)
        # The reference's initialisation for a linear map (Glorot, uniform).
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def project(self, features: Tensor) -> Tensor:
        """Map features, scaled to unit length, to the embedding space.

        (B, F) -> (B, N). Cells or regions, (B, cells, F), are mapped one by one and pooled by their
        maximum in each coordinate: what is true of a region, however small, is true of the whole.
        For regions, which are few and large, the mean is added, so that all of them learn.
        """
        unit = normalize(features, dim=-1)
        projected = low_precision_matmul(unit, self.projection.weight, self.matmul_dtype)
        projected = projected + self.projection.bias
        if self.pooling == "average":
            return projected
        points = projected if self.signed else projected.abs()
        largest = points.amax(1)
        return largest if self.pooling == "max" else largest + points.mean(1)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Permute the coordinates in place: new coordinate i is old coordinate order[i]."""
        self.projection.weight.copy_(self.projection.weight[order])
        self.projection.bias.copy_(self.projection.bias[order])

    def features(self, pixels: Tensor) -> Tensor:
        """Return the backbone's features of all crops: (B, crops, 3, H, W) -> (B, F), averaged.

        Features of cells or regions are not averaged: (B, crops * cells, F).
        """
        features = self.backbone(pixels.flatten(0, 1))
        if self.pooling == "regions":
            features = pool_regions(features)
        crops: Tensor = features.unflatten(0, pixels.shape[:2])
        return crops.mean(1) if self.pooling == "average" else crops.flatten(1, 2)

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self.project(self.features(pixels))
