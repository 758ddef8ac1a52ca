"""What distillations are tested with: pictures of two colours and the axes they vary along."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.pixels import normalise_pixels

Pixels = NDArray[np.uint8]


def two_colours(count: int) -> Pixels:
    """Pictures of one colour above another: (count, 64, 64, 3)."""
    draw = np.random.default_rng(0)
    colours = draw.integers(0, 256, (count, 2, 1, 1, 3), dtype=np.uint8)
    return np.broadcast_to(colours, (count, 2, 32, 64, 3)).reshape(count, 64, 64, 3)


def main_axes(network: Backbone, pixels: Pixels, count: int) -> torch.Tensor:
    """The axes along which what a network sees varies most, at unit variance: (count, F)."""
    with torch.inference_mode():
        seen = build_like(network)(normalise_pixels(torch.from_numpy(pixels.copy())))
        seen = nn.functional.normalize(seen, dim=-1)
        axes = torch.linalg.svd(seen - seen.mean(0), full_matrices=False)[2][:count]
        scaled: torch.Tensor = axes / seen.std(0).norm()
        return scaled


def build_like(network: Backbone) -> Backbone:
    """A network with the same weights, whose grid is not kept yet."""
    again = build_backbone(network.name)
    again.network.load_state_dict(network.network.state_dict())
    return again.eval()
