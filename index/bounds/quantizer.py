"""Sixteen levels for each coordinate of a segment: half a byte that gives a close lower bound.

E falls when the more specific point grows, and rises when the more general one does. So a row is
rounded up to the next level where the gap is `query - row`, and down where it is `row - query`: the
gap to the level never exceeds the gap to the row. An exact dynamic program over a histogram chooses
the levels that lose least by rounding. Moving a row from s to t lowers the bound of a query q by
about 2 (q - s) (t - s). So small coordinates weigh most where the gap is `query - row`, and large
ones where it is `row - query`.

    levels (N, LEVELS) float32, ascending        shares (N, LEVELS) float32: of the rows at a level
    columns (R / 2H, N, H) uint8: byte x of coordinate j in block b holds two rows' levels,
                                  2H b + x in its low half and 2H b + H + x in its high half
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import kernel
from hasse.index.types import Orientation, Points

LEVELS = 16
BINS = 128  # of the histogram from which levels are chosen
STRIP = 64  # bytes that are written and read at once: H is a multiple of it
_SAMPLE = 8192  # rows from which the levels are chosen
PAGE = 4096  # largest H in bytes: a page of memory


def half_block(rows: int, page: int = PAGE) -> int:
    """Return H, for blocks of 2H rows of equal size; H is at most a page."""
    blocks = max(1, -(-rows // (2 * page)))
    return -(-rows // (2 * blocks * STRIP)) * STRIP


def choose_levels(
    points: Points, largest: Points, orientation: Orientation
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return levels and shares, (N, LEVELS) each, for points (R, N) with the maxima (N,)."""
    sample = np.ascontiguousarray(points[:: max(1, len(points) // _SAMPLE)])
    levels = np.zeros((points.shape[1], LEVELS), np.float32)
    shares = np.zeros((points.shape[1], LEVELS), np.float32)
    _choose(sample, largest, int(orientation), levels, shares)
    return levels, shares


@kernel
def _choose(
    sample: Points,
    largest: Points,
    orientation: int,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
) -> None:
    up = orientation == Orientation.QUERY_GENERAL
    values = BINS + 1
    mass, moment = np.empty(values + 1), np.empty(values + 1)
    cost = np.empty((LEVELS + 1, values + 1))
    first = np.zeros((LEVELS + 1, values + 1), np.int64)
    for j in range(sample.shape[1]):
        top = np.float64(largest[j])
        if top > 0:
            width = top / BINS
            mass[:] = 0
            for row in range(sample.shape[0]):
                scaled = np.float64(sample[row, j]) / width
                at = np.ceil(scaled) if up else np.floor(scaled)
                mass[1 + min(int(at), BINS)] += 1
            moment[0] = 0
            for at in range(values):
                value = at * width
                # Every bin gets some weight, so that empty bins are divided too.
                weight = (mass[at + 1] + 1e-3) * ((top - value if up else value) + 1e-3 * top)
                mass[at + 1] = mass[at] + weight
                moment[at + 1] = moment[at] + weight * value
            _divide(mass, moment, width, up, cost, first)
            last = values
            for level in range(LEVELS, 0, -1):
                begin = first[level, last]
                levels[j, level - 1] = (last - 1 if up else begin) * width
                last = begin
            if up:
                levels[j, LEVELS - 1] = largest[j]
            else:
                levels[j, 0] = 0
        for row in range(sample.shape[0]):
            shares[j, _level(levels[j], sample[row, j], up)] += 1.0 / sample.shape[0]


@kernel
def _divide(
    mass: NDArray[np.float64],
    moment: NDArray[np.float64],
    width: float,
    up: bool,
    cost: NDArray[np.float64],
    first: NDArray[np.int64],
) -> None:
    # cost[l, n]: loss of the first n values with l levels; first[l, n]: start of the last level.
    values = mass.shape[0] - 1
    cost[0, :] = np.inf
    cost[0, 0] = 0
    for level in range(1, LEVELS + 1):
        cost[level, :level] = np.inf
        for stop in range(level, values + 1):
            least, begin = np.inf, level - 1
            for start in range(level - 1, stop):
                range_mass, range_moment = mass[stop] - mass[start], moment[stop] - moment[start]
                if up:
                    loss = (stop - 1) * width * range_mass - range_moment
                else:
                    loss = range_moment - start * width * range_mass
                total = cost[level - 1, start] + loss
                if total < least:
                    least, begin = total, start
            cost[level, stop], first[level, stop] = least, begin


@kernel
def _level(levels: NDArray[np.float32], value: float, up: bool) -> int:
    at = 0
    for level in range(LEVELS - 1):
        at += value > levels[level] if up else value >= levels[level + 1]
    return at


@kernel
def encode_block(
    points: Points,
    start: int,
    levels: NDArray[np.float32],
    orientation: int,
    columns: NDArray[np.uint8],
) -> None:
    """Write the levels of the rows from `start` on into one block of columns (N, H).

    `levels` (LEVELS, N) are transposed. Rows beyond the last one get level 0.
    """
    dimension, half = columns.shape
    row_levels = np.empty((2, dimension), np.uint8)
    strip = np.empty((dimension, STRIP), np.uint8)
    for first in range(0, half, STRIP):
        for at in range(STRIP):
            row_levels[:] = 0
            for side in range(2):
                row = start + side * half + first + at
                if row < points.shape[0]:
                    point, count = points[row], row_levels[side]
                    if orientation == Orientation.QUERY_GENERAL:
                        for level in range(LEVELS - 1):
                            edge = levels[level]
                            for j in range(dimension):
                                count[j] += point[j] > edge[j]
                    else:
                        for level in range(1, LEVELS):
                            edge = levels[level]
                            for j in range(dimension):
                                count[j] += point[j] >= edge[j]
            for j in range(dimension):
                strip[j, at] = row_levels[0, j] | (row_levels[1, j] << 4)
        # Whole cache lines at once: columns are a page apart, and caches hold few such addresses.
        columns[:, first : first + STRIP] = strip
