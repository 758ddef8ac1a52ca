"""Pools the cells of a network's last grid, as training and features need it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from hasse.models.encoders.regions import SIDE


def pool_regions(cells: Tensor) -> Tensor:
    """Compute `region_means` of pictures, differentiable: (B, S * S, F) -> (B, REGIONS, F)."""
    side = math.isqrt(cells.shape[1])
    grid = cells.transpose(1, 2).reshape(len(cells), -1, side, side)  # (B, F, S, S)
    regions = adaptive_avg_pool2d(grid, SIDE).flatten(2).transpose(1, 2)  # (B, 9, F)
    return torch.cat([cells.mean(1, keepdim=True), regions], dim=1)
