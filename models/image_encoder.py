"""Pictures to points: a torchvision network, then one linear map (Vendrov et al., equation 6)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import normalize

from models.backbone import Backbone


class ImageEncoder(nn.Module):
    """Map pixels or precomputed features to the embedding space.

    The network is frozen when training reads cached features, and learns with the rest when it
    reads pixels; either way it is part of the model, so that a checkpoint can encode a picture.
    """

    def __init__(self, backbone: Backbone, dimension: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Linear(backbone.feature_dimension, dimension)
        # The reference's initialisation for a linear map (Glorot, uniform).
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def project(self, features: Tensor) -> Tensor:
        """Map features, scaled to unit length, to the embedding space: (B, F) -> (B, N)."""
        projected: Tensor = self.projection(normalize(features, dim=-1))
        return projected

    def features(self, pixels: Tensor) -> Tensor:
        """Average the backbone's features over crops: (B, crops, 3, H, W) -> (B, F)."""
        crops = self.backbone(pixels.flatten(0, 1))  # (B * crops, F)
        mean: Tensor = crops.unflatten(0, pixels.shape[:2]).mean(1)
        return mean

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self.project(self.features(pixels))
