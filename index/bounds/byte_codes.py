"""One byte per coordinate, rounded so that the codes give a lower bound on each violation.

E falls when the more specific point grows, and rises when the more general one does. If the query
is the more general one, rows are rounded up and the query down; otherwise rows are rounded down and
the query up. With one step for the whole segment, the gaps of the codes times the step never exceed
the true gaps, and

    step^2 * sum over all coordinates of max(0, gap of codes)^2  <=  E

Codes are stored row by row, because few rows are read: `hasse.index.bounds.nibble_scan` rules out
the others.

    codes (R, N) uint8
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hasse.index.kernels import llvm
from hasse.index.kernels.compiling import kernel
from hasse.index.types import Ids, Orientation, Points

TOP = 255

cgutils: Any = _cgutils
types: Any = _types

_STRIP = 64  # codes that one vector of bytes holds
_AHEAD = 16  # rows between the one that is bounded and the one that is prefetched
_BYTES = ir.VectorType(ir.IntType(8), _STRIP)
_SHORTS = ir.VectorType(ir.IntType(16), _STRIP // 2)
_WORDS = ir.VectorType(ir.IntType(32), _STRIP // 4)

# Moves a quotient past its own rounding error, so that no code is on the wrong side of its point.
_OUTWARD = 1 + 2.0**-50
_INWARD = 1 - 2.0**-50


def step_for(largest: float) -> float:
    """Return the step that fits coordinates up to `largest` into a byte."""
    return largest * (1 + 1e-9) / TOP if largest > 0 else 1.0


def encode_rows(
    points: Points, step: float, orientation: Orientation, codes: NDArray[np.uint8]
) -> None:
    """Round rows (R, N) into their codes (R, N)."""
    _round(points, step, orientation is Orientation.QUERY_GENERAL, codes)


def encode_queries(queries: Points, step: float, orientation: Orientation) -> NDArray[np.uint8]:
    """Round queries (B, N) in the direction opposite to the rows."""
    codes = np.empty(queries.shape, np.uint8)
    _round(queries, step, orientation is not Orientation.QUERY_GENERAL, codes)
    return codes


@kernel
def _round(points: Points, step: float, up: bool, codes: NDArray[np.uint8]) -> None:
    for row in range(points.shape[0]):
        for j in range(points.shape[1]):
            scaled = np.float64(points[row, j]) / step
            rounded = np.ceil(scaled * _OUTWARD) if up else np.floor(scaled * _INWARD)
            codes[row, j] = np.uint8(min(rounded, float(TOP)))


def threshold(largest: float, step: float) -> int:
    """Return the largest sum of squares of a row whose true violation may be `largest`."""
    return int(min(largest / step**2 * _OUTWARD + 1, 2.0**32))


def _bounder(orientation: Orientation) -> Any:
    """Make the sum of squared gaps over all whole strips: (codes, row, query, next) -> uint32.

    The row `next` is prefetched.
    """

    def typed(_context: Any, codes: Any, row: Any, query: Any, next_row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored, codes_of_query = llvm.arrays(context, builder, signature, args, (0, 2))
            dimension = builder.extract_value(stored.shape, 1)
            row, next_row = (llvm.row(builder, stored, args[at], dimension) for at in (1, 3))
            totals = [
                cgutils.alloca_once_value(builder, ir.Constant(_WORDS, None)) for _ in range(4)
            ]
            whole = builder.and_(dimension, llvm.const(-_STRIP))
            edges = (llvm.const(0), whole, llvm.const(_STRIP))
            with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
                llvm.prefetch(builder, builder.gep(next_row, [at]))
                ends = [llvm.load(builder, _BYTES, end, at) for end in (codes_of_query.data, row)]
                _accumulate(
                    builder,
                    ends if orientation is Orientation.QUERY_GENERAL else ends[::-1],
                    totals,
                )
            sums = [builder.load(total) for total in totals]
            left, right = builder.add(*sums[:2]), builder.add(*sums[2:])
            name = f"llvm.vector.reduce.add.v{_WORDS.count}i32"
            return llvm.call(builder, name, ir.IntType(32), builder.add(left, right))

        return types.uint32(codes, types.int64, query, types.int64), generate

    return intrinsic(typed)


def _accumulate(builder: Any, ends: list[Any], totals: list[Any]) -> None:
    gap = llvm.call(builder, f"llvm.usub.sat.v{_STRIP}i8", _BYTES, *ends)
    gap = builder.bitcast(gap, _SHORTS)
    even = builder.and_(gap, llvm.filled(_SHORTS, 0xFF))
    odd = builder.lshr(gap, llvm.filled(_SHORTS, 8))
    for part, half in enumerate((even, odd)):
        square = builder.bitcast(builder.mul(half, half), _WORDS)
        low = builder.and_(square, llvm.filled(_WORDS, 0xFFFF))
        high = builder.lshr(square, llvm.filled(_WORDS, 16))
        for total, value in ((totals[part], low), (totals[part + 2], high)):
            builder.store(builder.add(builder.load(total), value), total)


_above = _bounder(Orientation.QUERY_GENERAL)
_below = _bounder(Orientation.STORED_GENERAL)


@kernel
def sum_of_squares(
    codes: NDArray[np.uint8], row: int, query: NDArray[np.uint8], orientation: int, next_row: int
) -> Any:
    """Return the sum of squared gaps of a row with a query (N,)."""
    total = np.int64(
        _above(codes, row, query, next_row)
        if orientation == Orientation.QUERY_GENERAL
        else _below(codes, row, query, next_row)
    )
    for j in range(codes.shape[1] // _STRIP * _STRIP, codes.shape[1]):
        gap = np.int64(query[j]) - np.int64(codes[row, j])
        if (gap > 0) == (orientation == Orientation.QUERY_GENERAL):
            total += gap * gap
    return total


@kernel
def rule_out(
    codes: NDArray[np.uint8],
    rows: NDArray[np.int32],
    starts: Ids,
    queries: NDArray[np.uint8],
    orientation: int,
    thresholds: NDArray[np.int64],
    start: int,
    stop: int,
    possible: NDArray[np.bool_],
) -> None:
    """Write to possible (n,) whether the sum of each row in [start, stop) is within its threshold.

    The rows of query b are rows[starts[b] : starts[b + 1]].
    """
    last = rows.shape[0] - 1
    for b in range(queries.shape[0]):
        query, limit = queries[b], thresholds[b]
        for at in range(max(start, starts[b]), min(stop, starts[b + 1])):
            next_row = rows[min(at + _AHEAD, last)]
            possible[at] = sum_of_squares(codes, rows[at], query, orientation, next_row) <= limit


@kernel
def survivors_of(
    rows: NDArray[np.int32], starts: Ids, possible: NDArray[np.bool_]
) -> tuple[Ids, Ids]:
    """Return the possible rows, in ascending order for each query, and their starts."""
    remaining, remaining_starts = (
        np.empty(rows.shape[0], np.int64),
        np.zeros(starts.shape[0], np.int64),
    )
    count = 0
    for b in range(starts.shape[0] - 1):
        for at in range(starts[b], starts[b + 1]):
            remaining[count] = rows[at]
            count += possible[at]
        remaining_starts[b + 1] = count
        remaining[remaining_starts[b] : count].sort()
    return remaining[:count], remaining_starts
