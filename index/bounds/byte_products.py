"""Sums of squared gaps of all rows with a whole batch of queries: products of bytes.

The instruction `vpdpbusd` multiplies bytes and adds four products to a sum of 32 bits, which fits
squares of 7-bit gaps. Codes above 127 count as 127 on both sides, which only makes gaps smaller.
Four rows and four queries stay in registers.

The scan of half bytes (`index.bounds.nibble_scan`) reads coordinates in each query's own order. It
is fast for a caption, which has few large coordinates. An image exceeds captions in most
coordinates: then multiplying all of them takes less time, and the result needs no second step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hasse.index.bounds.nibble_scan import features, place_of
from hasse.index.bounds.query_tables import MAX_SUM
from hasse.index.kernels import llvm
from hasse.index.kernels.compiling import kernel
from hasse.index.kernels.prefetch import prefetch
from hasse.index.types import Orientation

TOP = 127
STRIP = 64  # codes that one vector of bytes holds
_SIDE = 4  # rows, and queries, whose sums stay in registers
_SAMPLE = 64  # rows from which the size of sums is estimated
_AHEAD = 16  # rows between those that are multiplied and those that are prefetched

cgutils: Any = _cgutils
types: Any = _types

_BYTES = ir.VectorType(ir.IntType(8), STRIP)
_SHORTS = ir.VectorType(ir.IntType(16), STRIP // 2)
_WORDS = ir.VectorType(ir.IntType(32), STRIP // 4)
_MULTIPLIES = "avx512vnni" in features()


def pad_queries(codes: NDArray[np.uint8], orientation: Orientation) -> NDArray[np.uint8]:
    """Pad the codes (B, N) of queries to whole strips (B, S * STRIP); the padding adds no gap."""
    queries, dimension = codes.shape
    no_gap = 0 if orientation is Orientation.QUERY_GENERAL else TOP
    result = np.full((queries, -(-dimension // STRIP) * STRIP), no_gap, np.uint8)
    np.minimum(codes, np.uint8(TOP), out=result[:, :dimension])
    return result


def shift_for(
    codes: NDArray[np.uint8], queries: NDArray[np.uint8], orientation: Orientation
) -> int:
    """Return the bits to shift sums by, so that twice the sum of a typical row fits into 16 bits.

    codes (R, N), queries (B, S * STRIP).
    """
    sample = np.ascontiguousarray(codes[:: -(-len(codes) // _SAMPLE)])
    half = -(-len(sample) // (2 * STRIP)) * STRIP
    sums = np.empty((len(queries), 2 * half), np.uint16)
    widest = max(0, (codes.shape[1] * TOP**2).bit_length() - 16)
    add_products(sample, queries, int(orientation), widest, half, 0, 1, sums)
    places = [place_of(row, half) for row in range(len(sample))]
    common = int(np.median(sums[:, places], axis=1).max()) + 1
    shift: int = min(widest, max(0, (common << widest).bit_length() - 15))
    return shift


def _adder(orientation: Orientation) -> Any:
    """Make the sums of four rows with four queries: (rows, queries, query, shift, sums, at, odd).

    rows (_SIDE, L), queries (B, L). The last query is repeated if fewer than four are left. The
    sums of a query are written to sums[query] (B, n): of rows 0 and 2 from `at`, of rows 1 and 3
    from `at + odd`.
    """

    def typed(
        _context: Any, rows: Any, queries: Any, query: Any, shift: Any, sums: Any, at: Any, odd: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored, batch, out = llvm.arrays(context, builder, signature, args, (0, 1, 4))
            size, length = (builder.extract_value(batch.shape, n) for n in (0, 1))
            # The even rows are neighbours in the sums.
            points = [llvm.row(builder, stored, llvm.const(n), length) for n in (0, 2, 1, 3)]
            indices = [_clamp(builder, args[2], n, size) for n in range(_SIDE)]
            query_rows = [llvm.row(builder, batch, n, length) for n in indices]
            totals = _multiply(builder, points, query_rows, length, orientation)
            _store(builder, _add_up(builder, totals), args[3], out, indices, args[5:])
            return context.get_dummy_value()

        whole = types.int64
        return types.void(rows, queries, whole, whole, sums, whole, whole), generate

    return intrinsic(typed)


def _clamp(builder: Any, first: Any, n: int, count: Any) -> Any:
    """Emit the smaller of `first + n` and the last index."""
    at, last = builder.add(first, llvm.const(n)), builder.sub(count, llvm.const(1))
    return builder.select(builder.icmp_signed("<", at, last), at, last)


def _multiply(
    builder: Any, points: list[Any], queries: list[Any], length: Any, orientation: Orientation
) -> list[Any]:
    """Emit vectors of sums for the addresses of four rows and four queries, query by query."""
    empty = ir.Constant(_WORDS, None)
    totals = [cgutils.alloca_once_value(builder, empty) for _ in range(_SIDE**2)]
    edges = (llvm.const(0), length, llvm.const(STRIP))
    with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
        codes = [llvm.load(builder, _BYTES, point, at) for point in points]
        for n, start in enumerate(queries):
            query = llvm.load(builder, _BYTES, start, at)
            for total, code in zip(totals[_SIDE * n :], codes, strict=False):
                ends = (query, code) if orientation is Orientation.QUERY_GENERAL else (code, query)
                gap = llvm.call(builder, f"llvm.usub.sat.v{STRIP}i8", _BYTES, *ends)
                builder.store(_add_squares(builder, builder.load(total), gap), total)
    return [builder.load(total) for total in totals]


def _add_squares(builder: Any, total: Any, gap: Any) -> Any:
    """Emit a total (words) plus the squares of four neighbouring bytes each."""
    if _MULTIPLIES:
        ends = [builder.bitcast(gap, _WORDS)] * 2
        return llvm.call(builder, "llvm.x86.avx512.vpdpbusd.512", _WORDS, total, *ends)
    shorts = builder.bitcast(gap, _SHORTS)
    even = builder.and_(shorts, llvm.filled(_SHORTS, 0xFF))
    odd = builder.lshr(shorts, llvm.filled(_SHORTS, 8))
    # Two squares of 7 bits fit into 16 bits.
    pairs = builder.bitcast(builder.add(builder.mul(even, even), builder.mul(odd, odd)), _WORDS)
    low = builder.and_(pairs, llvm.filled(_WORDS, 0xFFFF))
    high = builder.lshr(pairs, llvm.filled(_WORDS, 16))
    return builder.add(total, builder.add(low, high))


def _add_up(builder: Any, totals: list[Any]) -> Any:
    """Emit the sums of 16 vectors of 16 words, in one vector: each step halves both numbers."""
    width = 1
    while len(totals) > 1:
        left, right = [], []
        for first in range(0, _WORDS.count, 2 * width):
            left += [*range(first, first + width)]
            right += [*range(first + width, first + 2 * width)]
        # Each pair of vectors becomes one: half of the lanes of both, plus the other half.
        sides = [llvm.lanes(side + [_WORDS.count + at for at in side]) for side in (left, right)]
        totals = [
            builder.add(*(builder.shuffle_vector(a, b, side) for side in sides))
            for a, b in zip(totals[::2], totals[1::2], strict=True)
        ]
    return totals[0]


def _store(builder: Any, sums: Any, shift: Any, out: Any, queries: list[Any], place: Any) -> None:
    empty = llvm.anything(_WORDS)
    first = builder.insert_element(empty, builder.trunc(shift, ir.IntType(32)), llvm.lane(0))
    shifts = builder.shuffle_vector(first, empty, llvm.lanes([0] * _WORDS.count))
    kind = ir.VectorType(ir.IntType(16), _WORDS.count)
    ends = (builder.lshr(sums, shifts), llvm.filled(_WORDS, MAX_SUM))
    least = llvm.call(builder, f"llvm.umin.v{_WORDS.count}i32", _WORDS, *ends)
    shorts = builder.trunc(least, kind)
    at, odd = place
    rows = builder.extract_value(out.shape, 1)
    for n, query in enumerate(queries):
        start = llvm.row(builder, out, query, rows)
        for half, first in enumerate((at, builder.add(at, odd))):
            lanes = llvm.lanes([_SIDE * n + 2 * half, _SIDE * n + 2 * half + 1])
            pair = builder.shuffle_vector(shorts, llvm.anything(kind), lanes)
            llvm.store(builder, pair, start, first)


_above = _adder(Orientation.QUERY_GENERAL)
_below = _adder(Orientation.STORED_GENERAL)


@kernel
def add_products(
    codes: NDArray[np.uint8],
    queries: NDArray[np.uint8],
    orientation: int,
    shift: int,
    half: int,
    start: int,
    stop: int,
    sums: NDArray[np.uint16],
) -> None:
    """Write the shifted sums of squared gaps of the rows of blocks [start, stop), up to MAX_SUM.

    codes (R, N), queries (B, S * STRIP), sums (B, R / 2H * 2H) in the order of `nibble_scan`.
    """
    rows = np.zeros((_SIDE, queries.shape[1]), np.uint8)  # copied once for all queries
    odd = place_of(1, half)
    for block in range(start, stop):
        first = block * 2 * half
        last = min(first + 2 * half, codes.shape[0])
        if last - first < 2 * half:
            sums[:, first : first + 2 * half] = MAX_SUM
        for row in range(first, last, _SIDE):
            for side in range(_SIDE):
                point = codes[min(row + side, last - 1)]
                for j in range(point.shape[0]):
                    rows[side, j] = min(point[j], np.uint8(TOP))
                for j in range(0, point.shape[0], STRIP):
                    prefetch(codes, row + side + _AHEAD, j)
            at = first + place_of(row - first, half)
            for query in range(0, queries.shape[0], _SIDE):
                if orientation == Orientation.QUERY_GENERAL:
                    _above(rows, queries, query, shift, sums, at, odd)
                else:
                    _below(rows, queries, query, shift, sums, at, odd)
