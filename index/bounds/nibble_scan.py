"""A scan of half a byte per coordinate, which rules out nearly all rows.

One instruction looks up as many rows as a vector has bytes in a table of the query
(`index.bounds.query_tables`). The sums of the entries bound the rows' violations from below. The
scan leaves a block of rows, after any few groups of coordinates, once few of its rows are possible
hits.
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
from hasse.index.bounds.query_tables import GROUP, MOST
from hasse.index.kernels import llvm
from hasse.index.kernels.compiling import kernel
from hasse.index.types import Ids

cgutils: Any = _cgutils
types: Any = _types
codegen: Any = _codegen
config: Any = _config

_LOOK = 4  # groups between two counts of the possible rows
# The scan leaves a block when one in so many of its rows is possible, and the last groups have
# ruled out no more than so few: reading the bytes of these rows then takes less.
_FEW = 24
_GAIN = 64

_SAMPLED = 16  # one strip of sums in so many is sampled for the first threshold
_STEP = 64  # the precision of that

_ONE = np.uint64(1)  # a signed difference may not overflow


def features() -> set[str]:
    """Return what LLVM calls the instructions that kernels are compiled for."""
    given = config.CPU_FEATURES
    if given is None:
        given = "" if config.CPU_NAME else codegen.get_host_cpu_features()
    return {name[1:] for name in given.split(",") if name.startswith("+")}


def _lookup_of_this_machine() -> tuple[int, str]:
    """Return how many bytes one instruction looks up in a table of 16, and its name in LLVM."""
    there = features()
    for feature, width, name in (
        ("avx512bw", 64, "llvm.x86.avx512.pshuf.b.512"),
        ("avx2", 32, "llvm.x86.avx2.pshuf.b"),
        ("ssse3", 16, "llvm.x86.ssse3.pshuf.b.128"),
        ("neon", 16, "llvm.aarch64.neon.tbl1.v16i8"),
    ):
        if feature in there:
            return width, name
    return 16, ""


_WIDTH, _LOOKUP = _lookup_of_this_machine()
_PARTS = 4  # sums of one vector of bytes: of even and odd bytes, of low and high halves
_SUMS = _WIDTH // 2
_LOG_SUMS = _SUMS.bit_length() - 1
_BYTES = ir.VectorType(ir.IntType(8), _WIDTH)
_SHORTS = ir.VectorType(ir.IntType(16), _SUMS)
_TABLE = ir.VectorType(ir.IntType(8), LEVELS)


def _repeated(builder: Any, kind: Any, value: Any) -> Any:
    """Emit a vector that holds one value everywhere."""
    empty = llvm.anything(kind)
    first = builder.insert_element(empty, value, llvm.lane(0))
    return builder.shuffle_vector(first, empty, llvm.lanes([0] * kind.count))


def _look_up(builder: Any, table: Any, places: Any) -> Any:
    """Emit table[place] for every byte of `places`, which are below 16."""
    if _LOOKUP:
        return llvm.call(builder, _LOOKUP, _BYTES, table, places)
    chosen = llvm.anything(_BYTES)
    for at in map(llvm.lane, range(_WIDTH)):
        one = builder.extract_element(table, builder.extract_element(places, at))
        chosen = builder.insert_element(chosen, one, at)
    return chosen


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
        now, later, looked_up = [], [], []
        for g in range(GROUP):
            at = builder.add(first, llvm.const(g))
            now.append(_column(builder, start, half, places.data, at))
            later.append(
                _column(builder, start, half, places.data, builder.add(at, llvm.const(GROUP)))
            )
            entry = builder.mul(at, llvm.const(LEVELS))
            table = llvm.load(builder, _TABLE, tables.data, entry)
            again = llvm.lanes([lane % LEVELS for lane in range(_WIDTH)])
            looked_up.append(builder.shuffle_vector(table, llvm.anything(_TABLE), again))
        shifted = _repeated(builder, _SHORTS, builder.trunc(args[5], ir.IntType(16)))
        group_of = (now, later, looked_up)
        edges = (llvm.const(0), half, llvm.const(_WIDTH))
        with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
            _add_vector(builder, group_of, at, shifted, out.data)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(columns, whole, order, entries, whole, whole, sums), generate


def _column(builder: Any, start: Any, half: Any, order: Any, at: Any) -> Any:
    coordinate = builder.sext(builder.load(builder.gep(order, [at])), llvm.INT)
    return builder.gep(start, [builder.mul(coordinate, half)])


def _add_vector(builder: Any, columns: Any, at: Any, shift: Any, sums: Any) -> None:
    low, four, eight = llvm.filled(_BYTES, 15), llvm.filled(_SHORTS, 4), llvm.filled(_SHORTS, 8)
    totals = [llvm.filled(_SHORTS, 0)] * _PARTS
    for now, later, table in zip(*columns, strict=True):
        pairs = llvm.load(builder, _BYTES, now, at)
        # No hardware foresees the order of a query's coordinates: ask for the next group's now.
        llvm.prefetch(builder, builder.gep(later, [at]))
        upper = builder.bitcast(builder.lshr(builder.bitcast(pairs, _SHORTS), four), _BYTES)
        for half, levels in enumerate((pairs, upper)):
            looked_up = _look_up(builder, table, builder.and_(levels, low))
            looked_up = builder.bitcast(looked_up, _SHORTS)
            even = builder.and_(looked_up, llvm.filled(_SHORTS, 255))
            odd = builder.lshr(looked_up, eight)
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
        within = builder.icmp_unsigned("<=", sums, _repeated(builder, kind, args[2]))
        return builder.bitcast(within, llvm.INT)

    return types.uint64(sums, types.int64, types.uint16), generate


def _counter(_context: Any, bits: Any) -> Any:
    """Type the operation that counts the zeros below the lowest of some bits, which are not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), generate


_within: Any = intrinsic(_finder)
_lowest: Any = intrinsic(_counter)


@kernel
def row_of(place: int, half: int) -> int:
    """Return the row of a block whose sum is at `place` of its sums (2H,)."""
    # The bits of a place: its vector, half, parity, pair.
    pair, parity = place & _SUMS - 1, place >> _LOG_SUMS & 1
    upper, vector = place >> _LOG_SUMS + 1 & 1, place >> _LOG_SUMS + 2
    return vector * _WIDTH + 2 * pair + parity + upper * half


@kernel
def place_of(row: int, half: int) -> int:
    """Return where the sum of a row of a block is: the opposite of `row_of`."""
    upper = row >= half
    row -= upper * half
    vector, pair, parity = row // _WIDTH, row % _WIDTH // 2, row % 2
    return (((vector << 1 | upper) << 1 | parity) << _LOG_SUMS) + pair


@kernel
def add_groups(
    columns: NDArray[np.uint8],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    last: NDArray[np.int64],
    start: int,
    stop: int,
    sums: NDArray[np.uint16],
) -> None:
    """Write the sums (B, R / 2H, 2H) of each query's first `last` groups for blocks [start, stop).

    A block is compared with all queries before the next one, while it is in the caches.
    """
    for block in range(start, stop):
        for b in range(order.shape[0]):
            sums[b, block] = 0
            for group in range(last[b]):
                _add(columns, block, order[b], entries[b], group, shifts[b, group], sums[b, block])


@kernel
def _possible(sums: NDArray[np.uint16], limit: np.uint16) -> int:
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
    rests: NDArray[np.float64],
) -> None:
    """Choose the live rows with the smallest of all sums (B, R / 2H, 2H) of queries [start, stop).

    smallest_rows[b, :counts[b]] are those of query b, in ascending order: as many as fit, or
    all. No other live row has a sum below rests[b].
    """
    for b in range(start, stop):
        chosen, rests[b] = _smallest(sums[b], rows, excluded, smallest_rows.shape[1])
        counts[b] = chosen.shape[0]
        smallest_rows[b, : counts[b]] = chosen


@kernel
def _smallest(
    sums: NDArray[np.uint16], rows: int, excluded: NDArray[np.bool_], count: int
) -> tuple[Ids, float]:
    """Return the `count` live rows with the smallest of all sums (R / 2H, 2H), in ascending order.

    Also returns the smallest sum of the other live rows; infinity where there are none.
    """
    sampled = np.zeros((MOST + 1) // _STEP, np.int64)  # sums in each step
    for block in range(sums.shape[0]):
        for first in range(0, sums.shape[1], _SAMPLED * STRIP):
            for place in range(first, first + STRIP):
                sampled[sums[block, place] // _STEP] += 1
    wanted = 2 * count // _SAMPLED + 8
    while True:
        limit, left = 0, wanted
        while limit <= MOST and left > 0:
            left -= sampled[limit // _STEP]
            limit += _STEP
        below, theirs = _below(sums, limit, rows, excluded)
        if below.shape[0] > count or limit > MOST:
            break
        wanted *= 4
    if below.shape[0] <= count:
        return np.sort(below), np.inf
    order = np.argsort(theirs)
    return np.sort(below[order[:count]]), np.float64(theirs[order[count]])


@kernel
def _is_live(row: int, rows: int, excluded: NDArray[np.bool_]) -> bool:
    return row < rows and not (excluded.shape[0] > 0 and excluded[row])


@kernel
def _below(
    sums: NDArray[np.uint16], limit: int, rows: int, excluded: NDArray[np.bool_]
) -> tuple[Ids, NDArray[np.uint16]]:
    # The live rows whose sums are below the limit, which are few, and these sums.
    half = sums.shape[1] // 2
    last = np.uint16(limit - 1)
    listed, theirs = np.empty(rows, np.int64), np.empty(rows, np.uint16)
    count = 0
    for block in range(sums.shape[0]):
        for first in range(0, 2 * half, STRIP):
            bits = _within(sums[block], first, last)
            while bits != 0:
                place = first + _lowest(bits)
                bits &= bits - _ONE
                row = block * 2 * half + row_of(place, half)
                if _is_live(row, rows, excluded):
                    listed[count], theirs[count] = row, sums[block, place]
                    count += 1
    return listed[:count], theirs[:count]


@kernel
def rule_out(
    columns: NDArray[np.uint8],
    rows: int,
    excluded: NDArray[np.bool_],
    order: NDArray[np.int32],
    entries: NDArray[np.uint8],
    shifts: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    done: NDArray[np.int64],
    start: int,
    stop: int,
    sums: NDArray[np.uint16],
    listed: NDArray[np.int32],
    counts: NDArray[np.int64],
    added: NDArray[np.int64],
) -> None:
    """List the live rows of blocks [start, stop) whose sums do not exceed the thresholds (B,).

    `sums` (B, R / 2H, 2H) are those of the first `done` (B,) groups, and are added to; they may be
    anything where none is done. A block is left once few of its rows are possible and hardly fewer
    than before. For each query b, listed[b, :counts[b]] are rows in any order, and added[b] counts
    the groups that were added, over all blocks.
    """
    half, groups = columns.shape[2], shifts.shape[1]
    few = 2 * half // _FEW
    for block in range(start, stop):
        for b in range(order.shape[0]):
            own, limit, group = sums[b, block], np.uint16(thresholds[b]), done[b]
            if group == 0:
                own[:] = 0
            before = 2 * half
            while group < groups and limit < MOST:
                possible = _possible(own, limit)
                if possible == 0 or (possible <= few and before - possible <= _GAIN):
                    break
                before = possible
                last = min(group + _LOOK, groups)
                added[b] += last - group
                for one in range(group, last):
                    _add(columns, block, order[b], entries[b], one, shifts[b, one], own)
                group = last
            counts[b] = _list(own, limit, block, rows, half, excluded, listed[b], counts[b])


@kernel
def _list(
    sums: NDArray[np.uint16],
    limit: np.uint16,
    block: int,
    rows: int,
    half: int,
    excluded: NDArray[np.bool_],
    listed: NDArray[np.int32],
    count: int,
) -> int:
    for first in range(0, 2 * half, STRIP):
        bits = _within(sums, first, limit)
        while bits != 0:
            row = block * 2 * half + row_of(first + _lowest(bits), half)
            bits &= bits - _ONE
            if _is_live(row, rows, excluded):
                listed[count] = row
                count += 1
    return count
