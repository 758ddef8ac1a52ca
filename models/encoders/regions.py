"""Features of a picture and of its regions, from the last grid of a network."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

SIDE = 3  # regions in a row
REGIONS = 1 + SIDE**2


def region_means(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average a whole grid, then each of nine regions: (S * S, F) -> (REGIONS, F).

    The regions are three by three and cover the grid. In a grid of seven cells a side, each has
    three by three cells, and shares a row or column with the next.
    """
    side = math.isqrt(len(cells))
    grid = cells.reshape(side, side, -1)
    edges = [(at * side // SIDE, -(-(at + 1) * side // SIDE)) for at in range(SIDE)]
    parts = [grid[top:bottom, left:right] for top, bottom in edges for left, right in edges]
    return np.stack([part.mean((0, 1)) for part in (grid, *parts)])
