"""The tables of a query: its term of the violation at each of the sixteen levels of a coordinate.

For each query and coordinate, a table holds the squared gap to each level (see
`hasse.index.bounds.quantizer`), in a unit of the query and rounded down, so that

    unit * sum over any coordinates of table[level of the row]  <=  E

Coordinates are sorted by their expected term, the largest first, in groups of `GROUP`. The unit of
a group's tables is larger by a power of two, chosen so that rounding and the limit of a byte lose
little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.index.bounds.quantizer import LEVELS
from hasse.index.kernels.compiling import brief, kernel
from hasse.index.types import Orientation, Points

GROUP = 8  # coordinates whose tables stay in registers
MAX_SUM = 65535  # sums saturate here
_SHIFTS = 6  # units of a group: 1, 2, ..., 32 of the query's
_ENOUGH = 0.97  # share of the expected violation; further coordinates are left to the next step
_BUCKETS = 2048  # for sorting weights: 64 for each of 32 powers of two
# Half the expected violation in units: sums fit up to twice the expected violation.
_UNITS = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Terms of each query at each level of each coordinate; the heaviest coordinates come first.

    Attributes:
        order: (B, all groups + 1, GROUP) int32 coordinates; the last group is only prefetched.
        entries: (B, G, GROUP, LEVELS) uint8, of the groups that add enough.
        shifts: (B, G): an entry of a group counts 2^shift units.
        units: (B,): violation of one unit.
        cumulative: (B, all groups): share of the expected violation up to and with each group.
        bases: (B,): the lower bound if the sum is 0.
    """

    order: NDArray[np.int32]
    entries: NDArray[np.uint8]
    shifts: NDArray[np.int64]
    units: NDArray[np.float64]
    cumulative: NDArray[np.float64]
    bases: NDArray[np.float64]

    def groups(self, share: float) -> NDArray[np.int64]:
        """Return how many groups (B,) add this share of each query's expected violation."""
        further = np.count_nonzero(self.cumulative < share, axis=1)
        return np.asarray(np.minimum(1 + further, self.shifts.shape[1]))

    def thresholds(self, largest: Sequence[float]) -> NDArray[np.int64]:
        """Return the largest sums of rows whose true violations may be `largest`, of B queries."""
        each = zip(largest, self.bases.tolist(), self.units.tolist(), strict=True)
        sums = [max(0, min((limit - base) / unit + 1, MAX_SUM)) for limit, base, unit in each]
        return np.array(sums, np.int64)


def tables_of(
    queries: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    orientation: Orientation,
) -> Tables:
    """Make the tables of queries (B, N) for levels and shares (N, LEVELS)."""
    count, dimension = queries.shape
    groups = -(-dimension // GROUP)
    weights = np.zeros((count, groups * GROUP))
    order = np.zeros((count, groups + 1, GROUP), np.int32)
    entries = np.zeros((count, groups, GROUP, LEVELS), np.uint8)
    shifts = np.zeros((count, groups), np.int64)
    units, cumulative = np.zeros(count), np.zeros((count, groups))
    used = _prepare(
        queries,
        levels,
        shares,
        int(orientation),
        weights,
        order,
        entries,
        shifts,
        units,
        cumulative,
    )
    # Contiguous, because the kernels are compiled for this layout.
    entries, shifts = (np.ascontiguousarray(each[:, :used]) for each in (entries, shifts))
    return Tables(order, entries, shifts, units, cumulative, np.zeros(count))


@kernel
def _gap(value: float, level: float, orientation: int) -> float:
    # Both are float32 values: the relative error of the difference is at most 2^-53.
    gap = value - level if orientation == Orientation.QUERY_GENERAL else level - value
    return max(gap, 0.0)


@kernel
def _entry(value: float) -> Any:
    # Truncation is vectorized; `np.floor` would be a call for each number.
    return np.int32(min(value, 255.0))


@kernel
def _weigh(
    query: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    orientation: int,
    weights: NDArray[np.float64],
) -> None:
    for j in range(query.shape[0]):
        value, total = np.float64(query[j]), 0.0
        for at in range(LEVELS):
            total += shares[j, at] * _gap(value, np.float64(levels[j, at]), orientation) ** 2
        weights[j] = total


@kernel
def _tabulate(
    query: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    order: NDArray[np.int32],
    unit: float,
    orientation: int,
    groups: int,
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
) -> None:
    exact, share = np.zeros((GROUP, LEVELS)), np.zeros((GROUP, LEVELS))
    totals = np.empty(LEVELS)
    scale = (1 - 2.0**-40) / unit
    for group in range(groups):
        top = 0.0
        for g in range(GROUP):
            j = order[group, g]
            if j >= query.shape[0]:
                exact[g] = 0
                share[g] = 0
                continue
            value = np.float64(query[j])
            for at in range(LEVELS):
                gap = _gap(value, np.float64(levels[j, at]), orientation)
                exact[g, at] = gap * gap * scale
                share[g, at] = shares[j, at]
            # Levels ascend: the gap to the first or to the last is the largest.
            top = max(top, exact[g, 0], exact[g, LEVELS - 1])
        # Choose the unit that keeps most of the violation after rounding, over all rows.
        most = -1.0
        for shift in range(_SHIFTS):
            size, part = 2.0**shift, 2.0**-shift
            totals[:] = 0
            for g in range(GROUP):
                for at in range(LEVELS):  # one total for each level, so that this is vectorized
                    totals[at] += share[g, at] * _entry(exact[g, at] * part)
            total = totals.sum() * size
            if total > most:
                most, shifts[group] = total, shift
            if top <= 255 * size:
                break
        part = 2.0 ** -shifts[group]
        for g in range(GROUP):
            for at in range(LEVELS):
                entries[group, g, at] = _entry(exact[g, at] * part)


@kernel
def _sort(weights: NDArray[np.float64], order: NDArray[np.int32]) -> None:
    """Write the order of the weights (n,), largest first; weights within a hundredth may swap."""
    # The bits of positive floats sort as the numbers: 11 bits of exponent, then 6 resolve 1/64.
    keys = weights.view(np.int64) >> 46
    top = keys.max()
    starts = np.zeros(_BUCKETS + 1, np.int64)
    for at in range(keys.shape[0]):
        keys[at] = min(top - keys[at], _BUCKETS - 1)
        starts[keys[at] + 1] += 1
    for bucket in range(_BUCKETS):
        starts[bucket + 1] += starts[bucket]
    for at in range(keys.shape[0]):
        order[starts[keys[at]]] = at
        starts[keys[at]] += 1


@brief
def _prepare(
    queries: Points,
    levels: NDArray[np.float32],
    shares: NDArray[np.float32],
    orientation: int,
    weights: NDArray[np.float64],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    units: NDArray[np.float64],
    cumulative: NDArray[np.float64],
) -> int:
    """Fill the tables; return how many groups are enough for every query."""
    # One function without numpy calls: the scan of the last search has evicted numpy's code from
    # the caches, so that each call would take longer than its work.
    used = 1
    for b in range(queries.shape[0]):
        _weigh(queries[b], levels, shares, orientation, weights[b])
        flat = order[b].reshape(-1)
        _sort(weights[b], flat)
        total = max(weights[b].sum(), 1e-200)
        units[b] = total / (2 * _UNITS)
        partial = 0.0
        for group in range(shifts.shape[1]):
            if partial < _ENOUGH * total:
                used = max(used, group + 1)
            for g in range(GROUP):
                partial += weights[b, flat[group * GROUP + g]]
            cumulative[b, group] = partial / total
    for b in range(queries.shape[0]):
        _tabulate(
            queries[b], levels, shares, order[b], units[b], orientation, used, entries[b], shifts[b]
        )
        # The padding of the last group weighs nothing and is read as coordinate 0.
        for group in range(order.shape[1]):
            for g in range(GROUP):
                if order[b, group, g] >= queries.shape[1]:
                    order[b, group, g] = 0
    return used
