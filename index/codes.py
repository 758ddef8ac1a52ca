"""One byte per coordinate, rounded so that every violation comes out too small: a lower bound.

E falls when the more specific point grows and rises when the more general one does. So rows whose
gap is `query - row` are rounded up and the query down, rows whose gap is `row - query` the other
way round; with one step for the whole segment, the gaps of the codes times the step never exceed
the true ones, and

    step^2 * sum over any coordinates of max(0, gap of codes)^2  <=  E

A partial sum is a bound too. Codes are stored coordinate by coordinate in blocks of `BLOCK` rows,
so a scan reads the coordinates that matter most to its query first and leaves a block when few of
its rows can still be hits.

    codes (R / BLOCK, N, BLOCK) uint8     levels (N, LEVELS) float32: expected squared gap of codes
                                          of a coordinate, by the query's code there
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from index.kernels import kernel, prefetch, relative_error
from index.lines import ordered_lines
from index.terms import Form, Points

BLOCK = 256
LEVELS = 33  # query codes 0, 8, ..., 256
TOP = 255
# The largest sum of squared gaps, N * 255^2, has to fit into 32 bits.
MAX_DIMENSION = (2**32 - 1) // TOP**2

cgutils: Any = _cgutils
types: Any = _types

_CHUNK = 16  # coordinates read between two looks at how many rows are left
_STRIP = 64  # rows that one vector of bytes holds
_INT = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), _STRIP)
_SHORTS = ir.VectorType(ir.IntType(16), _STRIP // 2)
_WORDS = ir.VectorType(ir.IntType(32), _STRIP // 4)

# Nudges the quotient past its own rounding, so that no code is on the wrong side of its point.
_OUTWARD = 1 + 2.0**-50
_INWARD = 1 - 2.0**-50


def step_for(largest: float) -> float:
    """Return the step with which coordinates up to `largest` fit into a byte."""
    return largest * (1 + 1e-9) / TOP if largest > 0 else 1.0


@kernel
def encode_block(
    points: Points, start: int, step: float, form: int, codes: NDArray[np.uint8]
) -> None:
    """Round the rows from `start` on into one block of codes (N, BLOCK)."""
    count = min(BLOCK, points.shape[0] - start)
    for at in range(count):
        for j in range(points.shape[1]):
            scaled = np.float64(points[start + at, j]) / step
            if form == 0:
                codes[j, at] = np.uint8(min(np.ceil(scaled * _OUTWARD), 255.0))
            else:
                codes[j, at] = np.uint8(np.floor(scaled * _INWARD))


@kernel
def count_codes(codes: NDArray[np.uint8], rows: int, counts: NDArray[np.int64]) -> None:
    """Add to counts (N, 256) how often each code occurs in the first rows of a block."""
    for j in range(codes.shape[0]):
        for at in range(rows):
            counts[j, codes[j, at]] += 1


def expected_gaps(counts: NDArray[np.int64], form: Form) -> NDArray[np.float32]:
    """Turn how often each code occurs, (N, 256), into the expected squared gaps (N, LEVELS)."""
    stored = np.arange(TOP + 1)[:, None]
    asked = np.minimum(np.arange(LEVELS) * 8, TOP)[None]
    gap = asked - stored if form is Form.QUERY_ABOVE else stored - asked
    total = np.maximum(1, counts.sum(axis=1, keepdims=True))
    expected = (counts @ np.square(np.maximum(0, gap)).astype(np.float64)) / total
    return np.asarray(expected, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class CodedQueries:
    """Queries as the scan wants them: codes and coordinates (B, N), heaviest coordinates first."""

    codes: NDArray[np.uint8]
    order: NDArray[np.int32]
    lines: NDArray[np.int32]  # (B, L), see `index.lines`
    step: float
    dimension: int

    def thresholds(self, bounds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the largest sums of squared gaps whose rows may have a violation <= `bounds`.

        The violation is the float32 one, which may be below the true one by its rounding error,
        and by what vanishes in the squares of gaps below 2^-63.
        """
        slack = 1 - relative_error(self.dimension) - 1e-12
        sums = (bounds + self.dimension * 2.0**-126) / (self.step**2 * slack)
        return np.asarray(np.minimum(np.floor(sums) + 1, 2.0**32 - 1), np.int64)


def encode_queries(
    queries: Points, step: float, levels: NDArray[np.float32], form: Form
) -> CodedQueries:
    """Round queries (B, N) in the direction opposite to the rows, and order their coordinates."""
    scaled = queries.astype(np.float64) / step
    if form is Form.QUERY_ABOVE:
        codes = np.minimum(np.floor(scaled * _INWARD), TOP).astype(np.uint8)
    else:
        codes = np.minimum(np.ceil(scaled * _OUTWARD), TOP).astype(np.uint8)
    weight = levels[np.arange(queries.shape[1]), (codes.astype(np.intp) + 4) // 8]  # (B, N)
    order = np.argsort(-weight, axis=1).astype(np.int32)
    lines = ordered_lines(weight)
    coded = np.take_along_axis(codes, order, axis=1)
    return CodedQueries(coded, order, lines, step, queries.shape[1])


def _accumulator(form: Form) -> Any:
    """Make the operation that adds the squared gaps of one strip of rows to its sums.

    accumulate(codes, block, strip, order, asked, first, last, sums): coordinates [first, last) of
    `order` (N,) with the query's codes `asked` (N,), for the 64 rows of the strip. The sum of row
    4m + p of a strip is at 16p + m, where the even and odd halves of the bytes leave it.
    """

    def typed(
        _context: Any,
        codes: Any,
        block: Any,
        strip: Any,
        order: Any,
        asked: Any,
        first: Any,
        last: Any,
        sums: Any,
    ) -> Any:
        whole = types.int64

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = {
                at: context.make_array(signature.args[at])(context, builder, args[at])
                for at in (0, 3, 4, 7)
            }
            dimension = builder.extract_value(arrays[0].shape, 1)
            column = builder.add(
                builder.mul(builder.mul(args[1], dimension), _const(BLOCK)),
                builder.mul(args[2], _const(_STRIP)),
            )
            start = builder.gep(arrays[0].data, [column])
            sums_at = builder.gep(arrays[7].data, [builder.mul(args[2], _const(_STRIP))])
            query = (arrays[3].data, arrays[4].data)
            block_bytes = builder.mul(dimension, _const(BLOCK))
            _emit(builder, form, (start, block_bytes), query, (args[5], args[6]), sums_at)
            return context.get_dummy_value()

        return types.void(codes, whole, whole, order, asked, whole, whole, sums), generate

    return intrinsic(typed)


def _const(value: int) -> Any:
    return ir.Constant(_INT, value)


def _emit(builder: Any, form: Form, codes: Any, query: Any, coordinates: Any, sums: Any) -> None:
    words = _STRIP // 4
    places = [
        builder.bitcast(builder.gep(sums, [_const(part * words)]), _WORDS.as_pointer())
        for part in range(4)
    ]
    totals = [cgutils.alloca_once_value(builder, builder.load(at, align=4)) for at in places]
    start, block_bytes = codes
    order, asked = query
    with cgutils.for_range_slice(builder, *coordinates, _const(1), _INT) as (at, _):
        coordinate = builder.sext(builder.load(builder.gep(order, [at])), _INT)
        place = builder.gep(start, [builder.mul(coordinate, _const(BLOCK))])
        stored = builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1)
        # No hardware foresees the order of a query's coordinates: ask for the next block's now.
        prefetch(builder, builder.gep(place, [block_bytes]))
        wanted = _splat(builder, builder.load(builder.gep(asked, [at])))
        ends = (wanted, stored) if form is Form.QUERY_ABOVE else (stored, wanted)
        gap = builder.bitcast(_subtract(builder, *ends), _SHORTS)
        even = builder.and_(gap, _vector(_SHORTS, 0xFF))
        odd = builder.lshr(gap, _vector(_SHORTS, 8))
        for part, half in enumerate((even, odd)):
            square = builder.bitcast(builder.mul(half, half), _WORDS)
            low = builder.and_(square, _vector(_WORDS, 0xFFFF))
            high = builder.lshr(square, _vector(_WORDS, 16))
            for total, value in ((totals[part], low), (totals[part + 2], high)):
                builder.store(builder.add(builder.load(total), value), total)
    for place, total in zip(places, totals, strict=True):
        builder.store(builder.load(total), place, align=4)


def _vector(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _splat(builder: Any, value: Any) -> Any:
    one = builder.insert_element(
        ir.Constant(_BYTES, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), _STRIP), [0] * _STRIP)
    return builder.shuffle_vector(one, ir.Constant(_BYTES, ir.Undefined), lanes)


def _subtract(builder: Any, left: Any, right: Any) -> Any:
    signature = ir.FunctionType(_BYTES, [_BYTES, _BYTES])
    saturating = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.usub.sat.v{_STRIP}i8"
    )
    return builder.call(saturating, [left, right])


_above = _accumulator(Form.QUERY_ABOVE)
_below = _accumulator(Form.STORED_ABOVE)


@kernel
def _row_of(at: int) -> int:
    return at // _STRIP * _STRIP + at % 16 * 4 + at % _STRIP // 16


@kernel
def partial_sums(
    codes: NDArray[np.uint8],
    order: NDArray[np.int32],
    asked: NDArray[np.uint8],
    form: int,
    last: int,
    start: int,
    stop: int,
    out: NDArray[np.uint32],
) -> None:
    """Write the sums of squared gaps over the first coordinates of the order, row by row.

    order (N,), asked (N,), out (R,): rows of the blocks [start, stop), padding included.
    """
    sums = np.empty(BLOCK, np.uint32)
    for block in range(start, stop):
        sums[:] = 0
        for strip in range(BLOCK // _STRIP):
            if form == 0:
                _above(codes, block, strip, order, asked, 0, last, sums)
            else:
                _below(codes, block, strip, order, asked, 0, last, sums)
        for at in range(BLOCK):
            out[block * BLOCK + _row_of(at)] = sums[at]


@kernel
def survivors(
    codes: NDArray[np.uint8],
    rows: int,
    dead: NDArray[np.bool_],
    order: NDArray[np.int32],
    asked: NDArray[np.uint8],
    form: int,
    thresholds: NDArray[np.int64],
    start: int,
    stop: int,
    patience: int,
    found: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> int:
    """List the live rows of blocks [start, stop) whose bound does not exceed the threshold.

    For each query b, found[b, :counts[b]] are rows. A strip of a block is left as soon as at most
    `patience` of its rows are possible. Returns the number of bytes read.
    """
    dimension = codes.shape[1]
    sums = np.empty(BLOCK, np.uint32)
    open_ = np.empty(BLOCK // _STRIP, np.bool_)
    read = 0
    for block in range(start, stop):
        for b in range(order.shape[0]):
            sums[:] = 0
            threshold = np.uint32(thresholds[b])
            open_[:] = True
            strips = BLOCK // _STRIP
            first = 0
            while first < dimension and strips:
                last = min(first + _CHUNK, dimension)
                read += strips * _STRIP * (last - first)
                for strip in range(BLOCK // _STRIP):
                    if not open_[strip]:
                        continue
                    if form == 0:
                        _above(codes, block, strip, order[b], asked[b], first, last, sums)
                    else:
                        _below(codes, block, strip, order[b], asked[b], first, last, sums)
                    left = 0
                    for at in range(strip * _STRIP, (strip + 1) * _STRIP):
                        left += sums[at] <= threshold
                    if left <= patience:
                        open_[strip] = False
                        strips -= 1
                first = last
            for at in range(BLOCK):
                if sums[at] <= threshold:
                    row = block * BLOCK + _row_of(at)
                    if row < rows and not (dead.shape[0] > 0 and dead[row]):
                        found[b, counts[b]] = row
                        counts[b] += 1
    return read
