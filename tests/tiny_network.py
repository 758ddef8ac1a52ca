"""An encoder of pictures that takes no time to build, copy, save and apply: two layers.

In processes that import this module, torchvision has it by the name `tiny`. Programs that tests
start as a user does take the built-in network, which is there without torchvision.
"""

from __future__ import annotations

from torch import Tensor, nn
from torchvision.models._api import register_model

FEATURES = 64


class TinyNetwork(nn.Module):
    """Two convolutions, an average that is no layer, and a classifier."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=4, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, FEATURES, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(FEATURES),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
        )
        self.fc = nn.Linear(FEATURES, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.features(pixels).mean((2, 3)))
        return scores


def _register(name: str, dropout: float) -> None:
    def build(weights: None = None) -> TinyNetwork:
        return TinyNetwork(dropout)

    # Hasse takes the classification networks, which are those of this package.
    build.__module__ = f"torchvision.models.{name}"
    register_model(name)(build)


_register("tiny", 0.0)
_register("tiny_dropping", 0.2)
