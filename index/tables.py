"""The tables of a query: what it adds at each of the sixteen levels of each coordinate.

For each query and coordinate, a table gives the squared gap to each level (see `index.levels`), in
units of the query's and rounded down, so that

    unit * sum over any coordinates of table[level of the row]  <=  E

The coordinates that are expected to add most come first; coordinates go in groups of `GROUP`, and a
group's tables count in units that are larger by a power of two, such that little is lost to
rounding or to the top of a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.kernels import kernel
from index.levels import LEVELS
from index.terms import Form, Points

GROUP = 8  # coordinates whose tables stay in registers
MOST = 65535  # the largest sum; larger ones stay there
_SHIFTS = 6  # units of a group: 1, 2, ..., 32 of the query's
_ENOUGH = 0.97  # of the expected violation: further coordinates are left to the next step
# The unit makes half the expected violation this many, so that twice that still counts.
_FINE = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What each query adds at each level of each coordinate, its heaviest coordinates first.

    Attributes:
        order: (B, G + 1, GROUP) int32 coordinates; the last group is fetched and never read.
        entries: (B, G, GROUP, LEVELS) uint8.
        shifts: (B, G): entries of a group count 2^shift units.
        units: (B,): of the query, in violation.
        heavy: (B, all groups): share of the expected violation that those up to each one add.
    """

    order: NDArray[np.int32]
    entries: NDArray[np.uint8]
    shifts: NDArray[np.int64]
    units: NDArray[np.float64]
    heavy: NDArray[np.float64]

    def groups(self, b: int, share: float) -> int:
        """Return how many groups add this share of what query b is expected to violate."""
        return int(min(np.searchsorted(self.heavy[b], share) + 1, self.shifts.shape[1]))

    def thresholds(self, largest: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the largest sums of rows whose true violations may be `largest` (B,)."""
        return np.asarray(np.minimum(largest / self.units + 1, MOST), np.int64)


def tables_of(
    queries: Points, levels: NDArray[np.float32], shares: NDArray[np.float32], form: Form
) -> Tables:
    """Make the tables of queries (B, N) for levels and shares (N, LEVELS)."""
    count, dimension = queries.shape
    groups = -(-dimension // GROUP)
    weights = np.zeros((count, groups * GROUP))
    _weigh(queries, levels, shares, int(form), weights)
    flat = np.zeros((count, (groups + 1) * GROUP), np.int32)
    flat[:, : groups * GROUP] = np.argsort(-weights, axis=1)
    # What fills up the last group weighs nothing and is read as coordinate 0.
    ordered = np.take_along_axis(weights, flat[:, : groups * GROUP], axis=1)
    totals = np.maximum(weights.sum(1), 1e-200)
    heavy = ordered.reshape(count, groups, GROUP).sum(2).cumsum(1) / totals[:, None]
    used = 1 + int((heavy[:, :-1] < _ENOUGH).sum(1).max(initial=0))
    units = totals / (2 * _FINE)
    entries = np.zeros((count, used, GROUP, LEVELS), np.uint8)
    shifts = np.zeros((count, used), np.int64)
    _tabulate(queries, levels, shares, flat, units, int(form), entries, shifts)
    order = flat[:, : (used + 1) * GROUP].reshape(count, used + 1, GROUP)
    order[order >= dimension] = 0
    return Tables(np.ascontiguousarray(order), entries, shifts, units, heavy)


@kernel
def _gap(asked: float, level: float, form: int) -> float:
    # Both are float32: the difference is exact or off by 2^-53 of itself.
    gap = asked - level if form == 0 else level - asked
    return max(gap, 0.0)


@kernel
def _weigh(
    queries: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    form: int,
    weights: NDArray[np.float64],
) -> None:
    for b in range(queries.shape[0]):
        for j in range(queries.shape[1]):
            asked, total = np.float64(queries[b, j]), 0.0
            for at in range(LEVELS):
                total += shares[j, at] * _gap(asked, np.float64(levels[j, at]), form) ** 2
            weights[b, j] = total


@kernel
def _tabulate(
    queries: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    order: NDArray[np.int32],
    units: NDArray[np.float64],
    form: int,
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
) -> None:
    dimension = queries.shape[1]
    exact, share = np.zeros((GROUP, LEVELS)), np.zeros((GROUP, LEVELS))
    for b in range(queries.shape[0]):
        scale = (1 - 2.0**-40) / units[b]
        for group in range(shifts.shape[1]):
            share[:] = 0
            top = 0.0
            exact[:] = 0
            for g in range(GROUP):
                j = order[b, group * GROUP + g]
                if j >= dimension:
                    continue
                asked = np.float64(queries[b, j])
                for at in range(LEVELS):
                    exact[g, at] = _gap(asked, np.float64(levels[j, at]), form) ** 2 * scale
                    share[g, at] = shares[j, at]
                    top = max(top, exact[g, at])
            # The unit in which most is left after rounding, over all rows.
            most = -1.0
            for shift in range(_SHIFTS):
                size, kept = 2.0**shift, 0.0
                for g in range(GROUP):
                    for at in range(LEVELS):
                        kept += share[g, at] * min(np.floor(exact[g, at] / size), 255.0)
                if kept * size > most:
                    most, shifts[b, group] = kept * size, shift
                if top <= 255 * size:
                    break
            size = 2.0 ** shifts[b, group]
            for g in range(GROUP):
                for at in range(LEVELS):
                    entries[b, group, g, at] = np.uint8(min(np.floor(exact[g, at] / size), 255.0))
