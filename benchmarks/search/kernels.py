"""What the kernels of LLVM IR buy beside plain numba: `python -m benchmarks.search.kernels`.

Medians of one thread, in turns, over random codes of 1,024 coordinates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import table
from hasse.index.bounds import byte_codes, nibble_scan
from hasse.index.bounds.quantizer import LEVELS
from hasse.index.bounds.query_tables import GROUP, MAX_SUM
from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.compiling import kernel, reduction
from hasse.index.types import Orientation

DIMENSION, HALF, GROUPS = 1024, 4096, 16
_CALLS = 31


@kernel
def add_groups(columns: Any, order: Any, entries: Any, shifts: Any, groups: int, sums: Any) -> None:
    """Add the first groups of coordinates to the sums of a block's rows, in the order of rows."""
    half = columns.shape[1]
    for group in range(groups):
        for at in range(half):
            low = high = np.uint32(0)
            for g in range(GROUP):
                pair = columns[order[group, g], at]
                low += np.uint32(entries[group, g, pair & 15])
                high += np.uint32(entries[group, g, pair >> 4])
            sums[at] = min(sums[at] + (low << shifts[group]), MAX_SUM)
            sums[at + half] = min(sums[at + half] + (high << shifts[group]), MAX_SUM)


@reduction
def sum_of_squares(code: Any, query: Any) -> Any:
    """Return the sum of squared gaps of a row's codes with a query's, both (N,)."""
    total = np.uint32(0)
    for j in range(query.shape[0]):
        gap = max(np.int16(query[j]) - np.int16(code[j]), np.int16(0))
        total += np.uint32(gap * gap)
    return np.int64(total)


@kernel
def rule_out(codes: Any, rows: Any, query: Any, threshold: int, possible: Any) -> None:
    """Write which rows have sums that do not exceed the threshold."""
    for at in range(rows.shape[0]):
        possible[at] = sum_of_squares(codes[rows[at]], query) <= threshold


def measured(rows: int = 60_000, chosen: int = 4000) -> str:
    """Return a table: microseconds of each kernel, of its plain twin, and how often it is faster.

    Raises:
        ValueError: a kernel and its twin disagree.
    """
    rng, way = np.random.default_rng(0), int(Orientation.QUERY_GENERAL)
    columns = read_only(rng.integers(0, 256, (1, DIMENSION, HALF), np.uint8))
    order = rng.permutation(DIMENSION).astype(np.int32)[: (GROUPS + 1) * GROUP]
    order = order.reshape(1, GROUPS + 1, GROUP)
    entries = rng.integers(0, 99, (1, GROUPS, GROUP, LEVELS), np.uint8)
    shifts, last = np.zeros((1, GROUPS), np.int64), np.array([GROUPS])
    sums, plain = np.zeros((1, 1, 2 * HALF), np.uint16), np.zeros(2 * HALF, np.uint16)
    codes = read_only(rng.integers(0, 64, (rows, DIMENSION), np.uint8))
    query = rng.integers(0, 64, (1, DIMENSION), np.uint8)
    some, starts = np.empty(chosen, np.int32), np.array([0, chosen])
    limits = np.array([chosen * 250])
    possible, also = np.empty(chosen, np.bool_), np.empty(chosen, np.bool_)

    def draw() -> None:  # other rows than before, which no cache holds
        some[:] = np.sort(rng.choice(rows, chosen, replace=False))

    def add_plain() -> None:
        plain[:] = 0
        add_groups(columns[0], order[0], entries[0], shifts[0], GROUPS, plain)

    pairs: list[tuple[str, Callable[[], None], Callable[[], None]]] = [
        (
            "half bytes looked up",
            lambda: nibble_scan.add_groups(columns, order, entries, shifts, last, 0, 1, sums),
            add_plain,
        ),
        (
            "gaps of bytes",
            lambda: byte_codes.rule_out(
                codes, some, starts, query, way, limits, 0, chosen, possible
            ),
            lambda: rule_out(codes, some, query[0], int(limits[0]), also),
        ),
    ]
    lines = [_line(draw, *pair) for pair in pairs]
    for _, special, twin in pairs:
        special()
        twin()
    places = [nibble_scan.row_of(at, HALF) for at in range(2 * HALF)]
    _agree(sums[0, 0], plain[places])
    _agree(possible, also)
    return table(("kernel", "LLVM IR, us", "plain numba, us", "faster"), lines)


def _line(
    draw: Callable[[], None], name: str, special: Callable[[], None], plain: Callable[[], None]
) -> list[str]:
    spent: list[list[float]] = [[], []]
    for _ in range(_CALLS):
        for own, work in zip(spent, (special, plain), strict=True):
            draw()
            began = time.thread_time_ns()
            work()
            own.append((time.thread_time_ns() - began) / 1000)
    took = [float(np.median(own)) for own in spent]
    return [name, *(f"{one:,.0f}" for one in took), f"{took[1] / took[0]:.2f} x"]


def _agree(one: NDArray[Any], other: NDArray[Any]) -> None:
    if not np.array_equal(one, other):
        raise ValueError("a kernel and its plain twin disagree")


if __name__ == "__main__":
    print(measured())
