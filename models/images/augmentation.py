"""Random cuts of pictures, under other colours and laid over each other, a batch at a time.

They are made where the network is that looks at them, on the CPU or a GPU. What is random comes
from a generator of numpy's, so that a step can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import roi_align

from models.images.preprocessing import normalise_pixels, random_crop


@dataclass(frozen=True, slots=True)
class AugmentationConfig:
    """How pictures are varied.

    Attributes:
        smallest: the share of a picture's area that a cut has at least.
        longest: the ratio of a cut's sides is at most this.
        colour: how far brightness, contrast, saturation and tint are turned: the logarithm's
            range.
        mixed: the share of cuts that another cut is laid over.
    """

    smallest: float = 0.3
    longest: float = 4 / 3
    colour: float = 0.3
    mixed: float = 0.5


def augment(
    pixels: Tensor, config: AugmentationConfig, side: int, draw: np.random.Generator
) -> Tensor:
    """Return a random cut of each picture: (B, S, S, 3) uint8 -> (B, 3, side, side), normalised.

    Half of them are mirrored.
    """
    high, wide = pixels.shape[1:3]
    cuts = [random_crop(draw, config.smallest, config.longest) for _ in range(len(pixels))]
    boxes = pixels.new_tensor(
        [
            (at, cut.left * wide, cut.top * high, cut.right * wide, cut.bottom * high)
            for at, cut in enumerate(cuts)
        ],
        dtype=torch.float32,
    )
    mirrored = pixels.new_tensor([cut.mirrored for cut in cuts], dtype=torch.bool)
    whole = normalise_pixels(pixels).contiguous()
    found: Tensor = roi_align(whole, boxes, side, aligned=True)
    found = torch.where(mirrored[:, None, None, None], found.flip(3), found)
    return _mixed(_coloured(found, config.colour, draw), config.mixed, draw)


def _coloured(pixels: Tensor, strength: float, draw: np.random.Generator) -> Tensor:
    """Turn each picture's brightness, contrast, saturation and tint: (B, 3, S, S), in place."""
    many = len(pixels)
    turned = np.exp(draw.uniform(-strength, strength, size=(5, many)))
    contrast, saturation = (pixels.new_tensor(t).view(-1, 1, 1, 1) for t in turned[:2])
    light = pixels.new_tensor(np.log(turned[2:].T)).view(many, 3, 1, 1)
    grey = pixels.mean(1, keepdim=True)
    middle = grey.mean((2, 3), keepdim=True)
    pixels.mul_(saturation).add_(grey * (1 - saturation))  # (B, 3, S, S)
    return pixels.mul_(contrast).add_(middle * (1 - contrast) + light)


def _mixed(pixels: Tensor, share: float, draw: np.random.Generator) -> Tensor:
    """Lay the next cut over some, with any weight: (B, 3, S, S)."""
    many = round(share * len(pixels))
    weight = pixels.new_tensor(draw.uniform(0, 1, size=many)).view(-1, 1, 1, 1)
    following = (torch.arange(many, device=pixels.device) + 1) % len(pixels)
    over = torch.lerp(pixels[:many], pixels[following], weight)
    return torch.cat([over, pixels[many:]])
