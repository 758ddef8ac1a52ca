"""A scan of half a byte per coordinate, which rules out nearly all rows.

One instruction looks up one byte of each of many rows in a table of the query
(`index.bounds.query_tables`). The sums of the entries are lower bounds on the rows' violations.
After every few groups of coordinates the scan counts the possible hits in a block of rows, and
leaves the block if they are few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config as _config
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.core import codegen as _codegen
from numba.extending import intrinsic
from numpy.typing import NDArray

from hasse.index.bounds.quantizer import LEVELS, STRIP
from hasse.index.bounds.query_tables import GROUP, MAX_SUM
from hasse.index.kernels import llvm
from hasse.index.kernels.compiling import kernel
from hasse.index.types import Ids

cgutils: Any = _cgutils
types: Any = _types
codegen: Any = _codegen
config: Any = _config

_LOOK = 4  # groups between two counts of the possible rows
# The scan leaves a block when at most one row in _FEW is possible, and the last groups have ruled
# out at most _GAIN rows. Then it is faster to read the bytes of the remaining rows.
_FEW = 24
_GAIN = 64

_STRIPS_PER_SAMPLE = 16  # one strip of sums in so many is sampled for the first threshold
_STEP = 64  # precision of the first threshold

_ONE = np.uint64(1)  # unsigned, because a signed difference must not overflow


def _lookup_of_this_machine() -> tuple[int, str]:
    """Return how many bytes one instruction looks up in a table of 16, and its name in LLVM."""
    features = config.CPU_FEATURES
    if features is None:
        features = "" if config.CPU_NAME else codegen.get_host_cpu_features()
    for feature, width, name in (
        ("+avx512bw", 64, "llvm.x86.avx512.pshuf.b.512"),
        ("+avx2", 32, "llvm.x86.avx2.pshuf.b"),
        ("+ssse3", 16, "llvm.x86.ssse3.pshuf.b.128"),
        ("+neon", 16, "llvm.aarch64.neon.tbl1.v16i8"),
    ):
        if feature in features.split(","):
            return width, name
    return 16, ""


_WIDTH, _LOOKUP = _lookup_of_this_machine()
_PARTS = 4  # sums of one vector of bytes: even and odd bytes, each with a low and a high half
_SUMS = _WIDTH // 2
_LOG_SUMS = _SUMS.bit_length() - 1
_BYTES = ir.VectorType(ir.IntType(8), _WIDTH)
_SHORTS = ir.VectorType(ir.IntType(16), _SUMS)
_TABLE = ir.VectorType(ir.IntType(8), LEVELS)


def _repeat(builder: Any, kind: Any, value: Any) -> Any:
    """Emit a vector in which every element is `value`."""
    empty = llvm.anything(kind)
    first = builder.insert_element(empty, value, llvm.lane(0))
    return builder.shuffle_vector(first, empty, llvm.lanes([0] * kind.count))


def _look_up(builder: Any, table: Any, places: Any) -> Any:
    """Emit table[place] for every byte of `places`, which are below 16."""
    if _LOOKUP:
        return llvm.call(builder, _LOOKUP, _BYTES, table, places)
    result = llvm.anything(_BYTES)
    for at in map(llvm.lane, range(_WIDTH)):
        entry = builder.extract_element(table, builder.extract_element(places, at))
        result = builder.insert_element(result, entry, at)
    return result


def _adder(
    _context: Any,
    columns: Any,
    block: Any,
    order: Any,
    entries: Any,
    group: Any,
    shift: Any,
    sums: Any,
) -> Any:
    """Type the operation that adds one group of coordinates to the sums of a block's rows.

    add(columns (blocks, N, H), block, order, entries, group, shift, sums (2H,)); see `row_of`.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored, places, tables, out = llvm.arrays(context, builder, signature, args, (0, 2, 3, 6))
        dimension, half = (builder.extract_value(stored.shape, at) for at in (1, 2))
        start = builder.gep(stored.data, [builder.mul(builder.mul(args[1], dimension), half)])
        first = builder.mul(args[4], llvm.const(GROUP))
        columns, next_columns, group_tables = [], [], []
        for g in range(GROUP):
            at = builder.add(first, llvm.const(g))
            next_at = builder.add(at, llvm.const(GROUP))
            columns.append(_column(builder, start, half, places.data, at))
            next_columns.append(_column(builder, start, half, places.data, next_at))
            entry = builder.mul(at, llvm.const(LEVELS))
            table = llvm.load(builder, _TABLE, tables.data, entry)
            repeated = llvm.lanes([lane % LEVELS for lane in range(_WIDTH)])
            group_tables.append(builder.shuffle_vector(table, llvm.anything(_TABLE), repeated))
        shifts = _repeat(builder, _SHORTS, builder.trunc(args[5], ir.IntType(16)))
        coordinates = list(zip(columns, next_columns, group_tables, strict=True))
        edges = (llvm.const(0), half, llvm.const(_WIDTH))
        with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
            _add_vector(builder, coordinates, at, shifts, out.data)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(columns, whole, order, entries, whole, whole, sums), generate


def _column(builder: Any, start: Any, half: Any, order: Any, at: Any) -> Any:
    coordinate = builder.sext(builder.load(builder.gep(order, [at])), llvm.INT)
    return builder.gep(start, [builder.mul(coordinate, half)])


def _add_vector(builder: Any, coordinates: Any, at: Any, shift: Any, sums: Any) -> None:
    """Emit the additions of a group, (column, next column, table) each, for one vector of bytes."""
    low, four, eight = llvm.filled(_BYTES, 15), llvm.filled(_SHORTS, 4), llvm.filled(_SHORTS, 8)
    totals = [llvm.filled(_SHORTS, 0)] * _PARTS
    for column, next_column, table in coordinates:
        pairs = llvm.load(builder, _BYTES, column, at)
        # Hardware cannot predict the order of a query's coordinates: prefetch the next group.
        llvm.prefetch(builder, builder.gep(next_column, [at]))
        upper = builder.bitcast(builder.lshr(builder.bitcast(pairs, _SHORTS), four), _BYTES)
        for half, levels in enumerate((pairs, upper)):
            entries = _look_up(builder, table, builder.and_(levels, low))
            entries = builder.bitcast(entries, _SHORTS)
            even = builder.and_(entries, llvm.filled(_SHORTS, 255))
            odd = builder.lshr(entries, eight)
            for part, value in ((2 * half, even), (2 * half + 1, odd)):
                totals[part] = builder.add(totals[part], value)
    first = builder.gep(sums, [builder.mul(at, llvm.const(2))])
    for part, total in enumerate(totals):
        # 8 entries of at most 255, times 2^5 at most: below 2^16.
        place = llvm.const(part * _SUMS)
        ends = (llvm.load(builder, _SHORTS, first, place), builder.shl(total, shift))
        grown = llvm.call(builder, f"llvm.uadd.sat.v{_SUMS}i16", _SHORTS, *ends)
        llvm.store(builder, grown, first, place)


_add: Any = intrinsic(_adder)


def _finder(_context: Any, sums: Any, first: Any, limit: Any) -> Any:
    """Type the operation (sums, first, limit) -> a bit for each of STRIP sums within the limit."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (stored,) = llvm.arrays(context, builder, signature, args, (0,))
        kind = ir.VectorType(ir.IntType(16), STRIP)
        sums = llvm.load(builder, kind, stored.data, args[1])
        within = builder.icmp_unsigned("<=", sums, _repeat(builder, kind, args[2]))
        return builder.bitcast(within, llvm.INT)

    return types.uint64(sums, types.int64, types.uint16), generate


def _counter(_context: Any, bits: Any) -> Any:
    """Type the operation that counts the zeros below the lowest bit of a number other than 0."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), generate


_within: Any = intrinsic(_finder)
_lowest: Any = intrinsic(_counter)


@kernel
def row_of(place: int, half: int) -> int:
    """Return the row of a block whose sum is at `place` of the block's sums (2H,)."""
    # The bits of a place are, from the top: vector, half, parity, pair.
    pair, parity = place & _SUMS - 1, place >> _LOG_SUMS & 1
    upper, vector = place >> _LOG_SUMS + 1 & 1, place >> _LOG_SUMS + 2
    return vector * _WIDTH + 2 * pair + parity + upper * half


@kernel
def add_groups(
    columns: NDArray[np.uint8],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    group_counts: NDArray[np.int64],
    start: int,
    stop: int,
    sums: NDArray[np.uint16],
) -> None:
    """Write the sums (B, R / 2H, 2H) over each query's first groups for blocks [start, stop).

    `group_counts` (B,) are the numbers of groups. Each block is compared with all queries while it
    is in the caches.
    """
    for block in range(start, stop):
        for b in range(order.shape[0]):
            sums[b, block] = 0
            for group in range(group_counts[b]):
                _add(columns, block, order[b], entries[b], group, shifts[b, group], sums[b, block])


@kernel
def _count_possible(sums: NDArray[np.uint16], limit: np.uint16) -> int:
    count = 0
    for place in range(sums.shape[0]):
        count += sums[place] <= limit
    return count


@kernel
def smallest(
    sums: NDArray[np.uint16],
    rows: int,
    excluded: NDArray[np.bool_],
    start: int,
    stop: int,
    smallest_rows: Ids,
    counts: NDArray[np.int64],
    least_others: NDArray[np.float64],
) -> None:
    """Write the live rows with the smallest sums (B, R / 2H, 2H), for queries [start, stop).

    The rows of query b are smallest_rows[b, :counts[b]], in ascending order: as many as fit, or
    all. No other live row has a sum below least_others[b].
    """
    for b in range(start, stop):
        chosen, least_others[b] = _smallest(sums[b], rows, excluded, smallest_rows.shape[1])
        counts[b] = chosen.shape[0]
        smallest_rows[b, : counts[b]] = chosen


@kernel
def _smallest(
    sums: NDArray[np.uint16], rows: int, excluded: NDArray[np.bool_], count: int
) -> tuple[Ids, float]:
    """Return the `count` live rows with the smallest sums (R / 2H, 2H), in ascending order.

    Also returns the smallest sum of the other live rows, or infinity if there are none.
    """
    histogram = np.zeros((MAX_SUM + 1) // _STEP, np.int64)  # sampled sums in each step
    for block in range(sums.shape[0]):
        for first in range(0, sums.shape[1], _STRIPS_PER_SAMPLE * STRIP):
            for place in range(first, first + STRIP):
                histogram[sums[block, place] // _STEP] += 1
    target = 2 * count // _STRIPS_PER_SAMPLE + 8
    while True:
        limit, left = 0, target
        while limit <= MAX_SUM and left > 0:
            left -= histogram[limit // _STEP]
            limit += _STEP
        below, below_sums = _below(sums, limit, rows, excluded)
        if below.shape[0] > count or limit > MAX_SUM:
            break
        target *= 4
    if below.shape[0] <= count:
        return np.sort(below), np.inf
    order = np.argsort(below_sums)
    return np.sort(below[order[:count]]), np.float64(below_sums[order[count]])


@kernel
def _is_live(row: int, rows: int, excluded: NDArray[np.bool_]) -> bool:
    return row < rows and not (excluded.shape[0] > 0 and excluded[row])


@kernel
def _below(
    sums: NDArray[np.uint16], limit: int, rows: int, excluded: NDArray[np.bool_]
) -> tuple[Ids, NDArray[np.uint16]]:
    """Return the live rows whose sums are below the limit, and these sums."""
    half = sums.shape[1] // 2
    last = np.uint16(limit - 1)
    below, below_sums = np.empty(rows, np.int64), np.empty(rows, np.uint16)
    count = 0
    for block in range(sums.shape[0]):
        for first in range(0, 2 * half, STRIP):
            bits = _within(sums[block], first, last)
            while bits != 0:
                place = first + _lowest(bits)
                bits &= bits - _ONE
                row = block * 2 * half + row_of(place, half)
                if _is_live(row, rows, excluded):
                    below[count], below_sums[count] = row, sums[block, place]
                    count += 1
    return below[:count], below_sums[:count]


@kernel
def rule_out(
    columns: NDArray[np.uint8],
    rows: int,
    excluded: NDArray[np.bool_],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    summed_groups: NDArray[np.int64],
    start: int,
    stop: int,
    sums: NDArray[np.uint16],
    possible_rows: NDArray[np.int32],
    counts: NDArray[np.int64],
    added_groups: NDArray[np.int64],
) -> None:
    """Write the live rows of blocks [start, stop) whose sums do not exceed the thresholds (B,).

    `sums` (B, R / 2H, 2H) are over the first `summed_groups` (B,) and are continued; where that is
    0 they are initialized. The scan leaves a block when few of its rows are possible and the last
    groups ruled out few. The rows of query b are possible_rows[b, :counts[b]], in no order;
    added_groups[b] counts the groups that were added, over all blocks.
    """
    half, groups = columns.shape[2], shifts.shape[1]
    few = 2 * half // _FEW
    for block in range(start, stop):
        for b in range(order.shape[0]):
            block_sums, limit = sums[b, block], np.uint16(thresholds[b])
            group = summed_groups[b]
            if group == 0:
                block_sums[:] = 0
            before = 2 * half
            while group < groups and limit < MAX_SUM:
                possible = _count_possible(block_sums, limit)
                if possible == 0 or (possible <= few and before - possible <= _GAIN):
                    break
                before = possible
                last = min(group + _LOOK, groups)
                added_groups[b] += last - group
                for g in range(group, last):
                    _add(columns, block, order[b], entries[b], g, shifts[b, g], block_sums)
                group = last
            counts[b] = _append_possible(
                block_sums, limit, block, rows, half, excluded, possible_rows[b], counts[b]
            )


@kernel
def _append_possible(
    sums: NDArray[np.uint16],
    limit: np.uint16,
    block: int,
    rows: int,
    half: int,
    excluded: NDArray[np.bool_],
    possible_rows: NDArray[np.int32],
    count: int,
) -> int:
    for first in range(0, 2 * half, STRIP):
        bits = _within(sums, first, limit)
        while bits != 0:
            row = block * 2 * half + row_of(first + _lowest(bits), half)
            bits &= bits - _ONE
            if _is_live(row, rows, excluded):
                possible_rows[count] = row
                count += 1
    return count
