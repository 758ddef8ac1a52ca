"""Features of a picture and of its regions, from the last grid of a network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

_SIDE = 3
REGIONS = 1 + _SIDE**2


def pool_regions(cells: Tensor) -> Tensor:
    """Average a whole grid, then each of nine regions: (B, S * S, F) -> (B, REGIONS, F).

    The regions are three by three and cover the grid. In a grid of seven cells a side, each has
    three by three cells, and shares a row or column with the next.
    """
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    side = math.isqrt(cells.shape[1])
    grid = cells.transpose(1, 2).reshape(len(cells), -1, side, side)  # (B, F, S, S)
    regions = adaptive_avg_pool2d(grid, _SIDE).flatten(2).transpose(1, 2)  # (B, 9, F)
    return torch.cat([cells.mean(1, keepdim=True), regions], dim=1)


def region_means(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute `pool_regions` of one picture, without torch: (S * S, F) -> (REGIONS, F)."""
    side = math.isqrt(len(cells))
    grid = cells.reshape(side, side, -1)
    edges = [(at * side // _SIDE, -(-(at + 1) * side // _SIDE)) for at in range(_SIDE)]
    parts = [grid[top:bottom, left:right] for top, bottom in edges for left, right in edges]
    return np.stack([part.mean((0, 1)) for part in (grid, *parts)])
