"""Features of a picture and of regions of it, from the last grid of a network."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

_ACROSS = 3
REGIONS = 1 + _ACROSS**2


def pool_regions(cells: Tensor) -> Tensor:
    """Average a grid over all of it, then over nine regions: (B, S * S, F) -> (B, REGIONS, F).

    The regions are three by three and together cover the grid; of seven cells each takes three,
    and shares one with the next.
    """
    side = math.isqrt(cells.shape[1])
    grid = cells.transpose(1, 2).reshape(len(cells), -1, side, side)  # (B, F, S, S)
    regions = adaptive_avg_pool2d(grid, _ACROSS).flatten(2).transpose(1, 2)  # (B, 9, F)
    return torch.cat([cells.mean(1, keepdim=True), regions], dim=1)
