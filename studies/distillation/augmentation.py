"""Augment pictures: random crops with changed colours, some mixed with each other.

A batch is augmented at a time, on the device of the network that sees it. Randomness comes from a
numpy generator, so that a step can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import roi_align

from hasse.lab.pixels import normalise_pixels
from hasse.models.images.preprocessing import random_crop


@dataclass(frozen=True, slots=True)
class AugmentationConfig:
    """How pictures are augmented.

    Attributes:
        min_area: the least share of a picture's area that a crop has.
        max_aspect: the largest ratio of a crop's sides, relative to the picture's.
        colour: the range of the logarithms by which brightness, contrast, saturation and tint
            change.
        mixup: the share of crops that are mixed with another one.
    """

    min_area: float = 0.3
    max_aspect: float = 4 / 3
    colour: float = 0.3
    mixup: float = 0.5


def augment(
    pixels: Tensor, config: AugmentationConfig, side: int, draw: np.random.Generator
) -> Tensor:
    """Return a random crop of each picture: (B, S, S, 3) uint8 -> (B, 3, side, side), normalised.

    Half of them are mirrored.
    """
    high, wide = pixels.shape[1:3]
    crops = [random_crop(draw, config.min_area, config.max_aspect) for _ in range(len(pixels))]
    boxes = pixels.new_tensor(
        [
            (at, crop.left * wide, crop.top * high, crop.right * wide, crop.bottom * high)
            for at, crop in enumerate(crops)
        ],
        dtype=torch.float32,
    )
    mirrored = pixels.new_tensor([crop.mirrored for crop in crops], dtype=torch.bool)
    whole = normalise_pixels(pixels).contiguous()
    crops_of: Tensor = roi_align(whole, boxes, side, aligned=True)
    crops_of = torch.where(mirrored[:, None, None, None], crops_of.flip(3), crops_of)
    return _mixed(_coloured(crops_of, config.colour, draw), config.mixup, draw)


def _coloured(pixels: Tensor, strength: float, draw: np.random.Generator) -> Tensor:
    """Change brightness, contrast, saturation and tint of each picture: (B, 3, S, S), in place."""
    many = len(pixels)
    factors = np.exp(draw.uniform(-strength, strength, size=(5, many)))
    contrast, saturation = (pixels.new_tensor(t).view(-1, 1, 1, 1) for t in factors[:2])
    light = pixels.new_tensor(np.log(factors[2:].T)).view(many, 3, 1, 1)
    grey = pixels.mean(1, keepdim=True)
    middle = grey.mean((2, 3), keepdim=True)
    pixels.mul_(saturation).add_(grey * (1 - saturation))  # (B, 3, S, S)
    return pixels.mul_(contrast).add_(middle * (1 - contrast) + light)


def _mixed(pixels: Tensor, share: float, draw: np.random.Generator) -> Tensor:
    """Mix a share of the pictures with the next one, by random weights: (B, 3, S, S)."""
    many = round(share * len(pixels))
    weight = pixels.new_tensor(draw.uniform(0, 1, size=many)).view(-1, 1, 1, 1)
    following = (torch.arange(many, device=pixels.device) + 1) % len(pixels)
    mixed = torch.lerp(pixels[:many], pixels[following], weight)
    return torch.cat([mixed, pixels[many:]])
