"""The tables of a query: its term of the violation at each of the sixteen levels of a coordinate.

For each query and coordinate, a table gives the squared gap to each level (see
`hasse.index.bounds.quantizer`), in units of the query's and rounded down, so that

    unit * sum over any coordinates of table[level of the row]  <=  E

The coordinates that are expected to add most come first; coordinates go in groups of `GROUP`, and a
group's tables count in units that are larger by a power of two, such that little is lost to
rounding or to the top of a byte.
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
MOST = 65535  # the largest sum; larger ones stay there
_SHIFTS = 6  # units of a group: 1, 2, ..., 32 of the query's
_ENOUGH = 0.97  # of the expected violation: further coordinates are left to the next step
_PLACES = 2048  # in which weights are sorted: 64 for each power of two, of 32
# The unit makes half the expected violation this many, so that twice that still counts.
_FINE = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What each query adds at each level of each coordinate; its heaviest coordinates come first.

    Attributes:
        order: (B, all groups + 1, GROUP) int32 coordinates; the last group is fetched, never read.
        entries: (B, G, GROUP, LEVELS) uint8, of the groups that add enough.
        shifts: (B, G): entries of a group count 2^shift units.
        units: (B,): of the query, in violation.
        heavy: (B, all groups): share of the expected violation that those up to each one add.
        bases: (B,): the lower bound where the sum is 0.
    """

    order: NDArray[np.int32]
    entries: NDArray[np.uint8]
    shifts: NDArray[np.int64]
    units: NDArray[np.float64]
    heavy: NDArray[np.float64]
    bases: NDArray[np.float64]

    @classmethod
    def none(cls, count: int) -> Tables:
        """Return tables of no coordinates, for sums that come complete and bring their unit."""
        return cls(
            np.zeros((count, 1, GROUP), np.int32),
            np.zeros((count, 0, GROUP, LEVELS), np.uint8),
            np.zeros((count, 0), np.int64),
            np.ones(count),
            np.zeros((count, 0)),
            np.zeros(count),
        )

    def groups(self, share: float) -> NDArray[np.int64]:
        """Return how many groups (B,) add this share of each query's expected violation."""
        groups = np.empty(len(self.heavy), np.int64)
        _groups(self.heavy, share, self.shifts.shape[1], groups)
        return groups

    def thresholds(self, largest: Sequence[float]) -> NDArray[np.int64]:
        """Return the largest sums of rows whose true violations may be `largest`, of B queries."""
        each = zip(largest, self.bases.tolist(), self.units.tolist(), strict=True)
        sums = [max(0, min((most - base) / unit + 1, MOST)) for most, base, unit in each]
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
    units, heavy = np.zeros(count), np.zeros((count, groups))
    used = _prepare(
        queries, levels, shares, int(orientation), weights, order, entries, shifts, units, heavy
    )
    # Contiguous, as the kernels were compiled for.
    entries, shifts = (np.ascontiguousarray(each[:, :used]) for each in (entries, shifts))
    return Tables(order, entries, shifts, units, heavy, np.zeros(count))


@brief
def _groups(heavy: NDArray[np.float64], share: float, most: int, groups: NDArray[np.int64]) -> None:
    for b in range(heavy.shape[0]):
        groups[b] = 1
        while groups[b] < most and heavy[b, groups[b] - 1] < share:
            groups[b] += 1


@kernel
def _gap(value: float, level: float, orientation: int) -> float:
    # Both are float32: the difference is exact or off by 2^-53 of itself.
    gap = value - level if orientation == Orientation.QUERY_GENERAL else level - value
    return max(gap, 0.0)


@kernel
def _entry(value: float) -> Any:
    # Truncated, which a vector does at once; `np.floor` would be a call for each.
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
        # The unit in which most is left after rounding, over all rows.
        most = -1.0
        for shift in range(_SHIFTS):
            size, part = 2.0**shift, 2.0**-shift
            totals[:] = 0
            for g in range(GROUP):
                for at in range(LEVELS):  # each level by itself, so that vectors can add
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
    """List the weights (n,) in descending order, to about a hundredth of each."""
    # A number's bits ascend with it: 11 of its exponent, then 52; 6 of them resolve a hundredth.
    keys = weights.view(np.int64) >> 46
    top = keys.max()
    starts = np.zeros(_PLACES + 1, np.int64)
    for at in range(keys.shape[0]):
        keys[at] = min(top - keys[at], _PLACES - 1)
        starts[keys[at] + 1] += 1
    for place in range(_PLACES):
        starts[place + 1] += starts[place]
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
    heavy: NDArray[np.float64],
) -> int:
    """Fill in the tables; return how many groups add enough of every query's violation."""
    # One function: each call of numpy would take longer than its work, because the scan of the last
    # search has driven numpy's code out of the caches.
    used = 1
    for b in range(queries.shape[0]):
        _weigh(queries[b], levels, shares, orientation, weights[b])
        flat = order[b].reshape(-1)
        _sort(weights[b], flat)
        total = max(weights[b].sum(), 1e-200)
        units[b] = total / (2 * _FINE)
        so_far = 0.0
        for group in range(shifts.shape[1]):
            if so_far < _ENOUGH * total:
                used = max(used, group + 1)
            for g in range(GROUP):
                so_far += weights[b, flat[group * GROUP + g]]
            heavy[b, group] = so_far / total
    for b in range(queries.shape[0]):
        _tabulate(
            queries[b], levels, shares, order[b], units[b], orientation, used, entries[b], shifts[b]
        )
        # What fills up the last group weighs nothing and is read as coordinate 0.
        for group in range(order.shape[1]):
            for g in range(GROUP):
                if order[b, group, g] >= queries.shape[1]:
                    order[b, group, g] = 0
    return used
