"""Pictures to points: a torchvision network, then one linear map (Vendrov et al., equation 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.encoders.mixed_precision import Product
from models.encoders.regions import parts_of

if TYPE_CHECKING:
    from models.encoders.backbone import Backbone

Pooling = Literal["average", "join", "parts"]


class ImageEncoder(nn.Module):
    """Map pixels or precomputed features to the embedding space.

    The network is frozen when training reads cached features, and learns with the rest when it
    reads pixels; either way it is part of the model, so that a checkpoint can encode a picture.

    Attributes:
        pooling: what becomes of the network's last grid; see `ModelConfig`.
        signed: whether points keep their signs.
        product: the type in which the projection multiplies matrices; bfloat16 trains faster.
    """

    def __init__(
        self,
        backbone: Backbone,
        dimension: int,
        *,
        pooling: Pooling = "average",
        signed: bool = False,
    ) -> None:
        """Take a network, to be left without its average where `pooling` is another.

        Raises:
            BackboneError: it does not end in the average of a grid.
        """
        super().__init__()
        self.backbone = backbone if pooling == "average" else backbone.keep_grid()
        self.pooling = pooling
        self.signed = signed
        self.product = torch.float32
        self.projection = nn.Linear(backbone.feature_dimension, dimension)
        # The reference's initialisation for a linear map (Glorot, uniform).
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def project(self, features: Tensor) -> Tensor:
        """Map features, scaled to unit length, to the embedding space.

        (B, F) -> (B, N). Of cells or parts, (B, cells, F), every one is mapped, and the picture is
        their join: what holds of a part holds of the whole, wherever and however small. To that of
        parts, which are few and large, their mean is added, so that all of them learn.
        """
        projected = self._projected(normalize(features, dim=-1))
        if self.pooling == "average":
            return projected
        points = projected if self.signed else projected.abs()
        join = points.amax(1)
        return join if self.pooling == "join" else join + points.mean(1)

    def _projected(self, unit: Tensor) -> Tensor:
        if self.product == torch.float32:
            exact: Tensor = self.projection(unit)
            return exact
        rounded: Tensor = Product.apply(unit, self.projection.weight, self.product)
        return rounded + self.projection.bias

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        self.projection.weight.copy_(self.projection.weight[order])
        self.projection.bias.copy_(self.projection.bias[order])

    def features(self, pixels: Tensor) -> Tensor:
        """Return the backbone's features of all crops: (B, crops, 3, H, W) -> (B, F), averaged.

        Of cells or parts, those of all crops side by side: (B, crops * cells, F).
        """
        seen = self.backbone(pixels.flatten(0, 1))
        if self.pooling == "parts":
            seen = parts_of(seen)
        crops: Tensor = seen.unflatten(0, pixels.shape[:2])
        return crops.mean(1) if self.pooling == "average" else crops.flatten(1, 2)

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self.project(self.features(pixels))
