"""Pictures to points: a torchvision network, then one linear map (Vendrov et al., equation 6)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.backbone import Backbone


class ImageEncoder(nn.Module):
    """Map pixels or precomputed features to the embedding space.

    The network is frozen when training reads cached features, and learns with the rest when it
    reads pixels; either way it is part of the model, so that a checkpoint can encode a picture.

    Attributes:
        signed: whether points keep their signs.
    """

    def __init__(self, backbone: Backbone, dimension: int, *, signed: bool = False) -> None:
        super().__init__()
        self.backbone = backbone
        self.signed = signed
        self.projection = nn.Linear(backbone.feature_dimension, dimension)
        # The reference's initialisation for a linear map (Glorot, uniform).
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def project(self, features: Tensor) -> Tensor:
        """Map features, scaled to unit length, to the embedding space.

        (B, F) -> (B, N). Of a grid, (B, cells, F), every cell is mapped, and the picture is the
        join of its cells: what holds of a part holds of the whole, wherever and however small.
        """
        projected: Tensor = self.projection(normalize(features, dim=-1))
        if not self.backbone.grid:
            return projected
        return (projected if self.signed else projected.abs()).amax(1)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        self.projection.weight.copy_(self.projection.weight[order])
        self.projection.bias.copy_(self.projection.bias[order])

    def features(self, pixels: Tensor) -> Tensor:
        """Return the backbone's features of all crops: (B, crops, 3, H, W) -> (B, F), averaged.

        Of a grid, the cells of all crops side by side: (B, crops * cells, F).
        """
        crops = self.backbone(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2])
        together: Tensor = crops.flatten(1, 2) if self.backbone.grid else crops.mean(1)
        return together

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self.project(self.features(pixels))
