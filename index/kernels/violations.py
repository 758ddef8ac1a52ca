"""Exact violations on the CPU, at the speed of memory.

Every kernel scores a row with the same emitted operations in the same order: float32, fused
multiply-add into 64 lanes (coordinate i goes to lane i mod 64), then a fixed tree over the lanes.
So a violation does not depend on the batch, the thread, the segment or the processor, and ties
stay ties. The kernels release the GIL; callers divide the rows among threads.

Each term of an order violation is non-negative, so the float32 result differs from the true one
by a relative `relative_error(N)` at most, which is what makes bounds on it provable.

Shapes: R stored rows, B queries, N coordinates, k hits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from index.kernels import llvm
from index.types import Form, Ids, Points

cgutils: Any = _cgutils
types: Any = _types

LANES = 64
QUERIES_TOGETHER = 4  # a row stays in registers while this many queries meet it

_ROWS_AHEAD = 8  # that are fetched while one is scored: nothing foresees which rows are chosen

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, without the GIL; keep the machine code on disk where possible."""
    return _compiled(function, nogil=True)


def brief(function: F) -> F:
    """Compile as `kernel` does, but keep the GIL: for what takes less than to get it back.

    In a service others want it: who lets go of it waits for it again, for up to 5 ms.
    """
    return _compiled(function, nogil=False)


def _compiled(function: F, *, nogil: bool) -> F:
    try:
        return cast(F, numba.njit(nogil=nogil, cache=True)(function))
    except RuntimeError:  # numba found no folder it may write to: a read-only installation
        return cast(F, numba.njit(nogil=nogil)(function))


def relative_error(dimension: int) -> float:
    """Bound |computed - true| / true for an order violation of `dimension` coordinates.

    The difference is rounded once and squared, each lane adds N / 64 terms, the tree adds six
    times; u = 2^-24 each, doubled to cover the products of errors (Higham, "Accuracy and
    Stability of Numerical Algorithms", lemma 3.1).
    """
    return 2 * (2 + -(-dimension // LANES) + 6) * 2.0**-24


def term(builder: Any, form: Form, stored: Any, query: Any, total: Any) -> Any:
    """Emit a vector's share of a violation, added to `total`: all are vectors of 16 floats."""
    if form is Form.COSINE:
        return _fused(builder, stored, query, total)
    ends = (query, stored) if form is Form.QUERY_ABOVE else (stored, query)
    gap = builder.fsub(*ends)
    zero = ir.Constant(gap.type, None)
    gap = builder.select(builder.fcmp_ordered(">", gap, zero), gap, zero)
    return _fused(builder, gap, gap, total)


def _fused(builder: Any, left: Any, right: Any, total: Any) -> Any:
    return llvm.call(builder, f"llvm.fma.v{llvm.LINE}f32", llvm.FLOATS, left, right, total)


def _emit(builder: Any, form: Form, stored: Any, queries: list[Any], dimension: Any) -> list[Any]:
    """Emit the violations of one row (a pointer) with some queries (pointers)."""
    parts = LANES // llvm.LINE
    zero = ir.Constant(llvm.FLOATS, None)
    totals = [[cgutils.alloca_once_value(builder, zero) for _ in range(parts)] for _ in queries]
    padded = cgutils.alloca_once(builder, ir.ArrayType(llvm.FLOAT, llvm.LINE))
    padded_query = cgutils.alloca_once(builder, ir.ArrayType(llvm.FLOAT, llvm.LINE))

    def accumulate(part: int, row: Any, at: Any) -> None:
        for query, total in zip(queries, totals, strict=True):
            other = llvm.load(builder, llvm.FLOATS, query, at)
            builder.store(term(builder, form, row, other, builder.load(total[part])), total[part])

    whole = builder.and_(dimension, llvm.const(-LANES))
    edges = (llvm.const(0), whole, llvm.const(LANES))
    with cgutils.for_range_slice(builder, *edges, llvm.INT) as (start, _):
        for part in range(parts):
            at = builder.add(start, llvm.const(part * llvm.LINE))
            accumulate(part, llvm.load(builder, llvm.FLOATS, stored, at), at)
    # What is left goes to the lanes it would have gone to, vector by vector, and the last
    # coordinates with zeros beside them: a zero gap adds nothing.
    for part in range(parts):
        at = builder.add(whole, llvm.const(part * llvm.LINE))
        end = builder.add(at, llvm.const(llvm.LINE))
        with builder.if_else(builder.icmp_signed("<=", end, dimension)) as (full, rest):
            with full:
                accumulate(part, llvm.load(builder, llvm.FLOATS, stored, at), at)
            with rest, builder.if_then(builder.icmp_signed("<", at, dimension)):
                left = builder.sub(dimension, at)
                _copy(builder, stored, at, left, padded)
                row = _load_all(builder, padded)
                for query, total in zip(queries, totals, strict=True):
                    _copy(builder, query, at, left, padded_query)
                    other = _load_all(builder, padded_query)
                    builder.store(
                        term(builder, form, row, other, builder.load(total[part])), total[part]
                    )
    sums = [llvm.total(builder, [builder.load(part) for part in total]) for total in totals]
    if form is Form.COSINE:
        return [builder.fsub(ir.Constant(llvm.FLOAT, 1.0), total) for total in sums]
    return sums


def _load_all(builder: Any, array: Any) -> Any:
    first = builder.gep(array, [llvm.const(0), llvm.const(0)])
    return llvm.load(builder, llvm.FLOATS, first, llvm.const(0))


def _copy(builder: Any, source: Any, at: Any, count: Any, target: Any) -> None:
    builder.store(ir.Constant(ir.ArrayType(llvm.FLOAT, llvm.LINE), None), target)
    with cgutils.for_range(builder, count, intp=llvm.INT) as loop:
        value = builder.load(builder.gep(source, [builder.add(at, loop.index)]))
        builder.store(value, builder.gep(target, [llvm.const(0), loop.index]))


def _scorer(form: Form, together: int) -> Any:
    """Make the operation `scorer(points (R, N), row, queries (B, N), first) -> together floats`."""

    def typed(_context: Any, points: Any, row: Any, queries: Any, first: Any) -> Any:
        result = types.float32 if together == 1 else types.UniTuple(types.float32, together)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            store, asked = llvm.arrays(context, builder, signature, args, (0, 2))
            dimension = builder.extract_value(store.shape, 1)
            stored = llvm.row(builder, store, args[1], dimension)
            pointers = [
                llvm.row(builder, asked, builder.add(args[3], llvm.const(b)), dimension)
                for b in range(together)
            ]
            values = _emit(builder, form, stored, pointers, dimension)
            if together == 1:
                return values[0]
            return context.make_tuple(builder, signature.return_type, values)

        return result(points, types.int64, queries, types.int64), generate

    return intrinsic(typed)


def _fetcher(_context: Any, points: Any, row: Any) -> Any:
    """Type the operation that asks for a row of points (R, N) to be brought to the cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (store,) = llvm.arrays(context, builder, signature, args, (0,))
        dimension = builder.extract_value(store.shape, 1)
        first = llvm.row(builder, store, args[1], dimension)
        edges = (llvm.const(0), dimension, llvm.const(llvm.LINE))
        with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
            llvm.prefetch(builder, builder.gep(first, [at]))
        return context.get_dummy_value()

    return types.void(points, row), generate


_fetch_row: Any = intrinsic(_fetcher)
_above, _below, _cosine = (_scorer(form, 1) for form in Form)
_some_cosines = _scorer(Form.COSINE, QUERIES_TOGETHER)


@kernel
def score(points: Points, row: int, queries: Points, at: int, form: int) -> Any:
    """Return the float32 violation of a row of points (R, N) with query `at` of (B, N)."""
    if form == 0:
        return _above(points, row, queries, at)
    if form == 1:
        return _below(points, row, queries, at)
    return _cosine(points, row, queries, at)


@kernel
def _sift(violations: Any, ids: Any, count: int) -> None:
    # Restore the heap below its root: the worst hit, by (violation, id), is at the top.
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            return
        right = child + 1
        if right < count and (
            violations[right] > violations[child]
            or (violations[right] == violations[child] and ids[right] > ids[child])
        ):
            child = right
        if violations[child] < violations[at] or (
            violations[child] == violations[at] and ids[child] <= ids[at]
        ):
            return
        violations[child], violations[at] = violations[at], violations[child]
        ids[child], ids[at] = ids[at], ids[child]
        at = child


@kernel
def offer(violations: Any, ids: Any, count: int, violation: float, id_: int) -> int:
    """Take a hit among the best so far, a heap, if there is room or it is better than the worst."""
    if count < violations.shape[0]:
        at = count
        while at > 0:
            parent = (at - 1) // 2
            if violations[parent] > violation or (
                violations[parent] == violation and ids[parent] > id_
            ):
                break
            violations[at], ids[at] = violations[parent], ids[parent]
            at = parent
        violations[at], ids[at] = violation, id_
        return count + 1
    if violation < violations[0] or (violation == violations[0] and id_ < ids[0]):
        violations[0], ids[0] = violation, id_
        _sift(violations, ids, count)
    return count


@kernel
def sort(violations: Any, ids: Any, count: int) -> None:
    """Sort the hits that `offer` kept, by (violation, id)."""
    for last in range(count - 1, 0, -1):
        violations[0], violations[last] = violations[last], violations[0]
        ids[0], ids[last] = ids[last], ids[0]
        _sift(violations, ids, last)


@kernel
def scan_rows(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    start: int,
    stop: int,
    limits: NDArray[np.float64],
    violations: Points,
    found: Ids,
    counts: Ids,
) -> None:
    """Score the live rows [start, stop) with all queries by cosine, and keep the best of each.

    points (R, N), ids (R,), excluded (R,) or (0,) when all live, queries (B, N), limits (B,).
    Violations and ids (B, room) are heaps as `offer` has them, of counts (B,) hits each.
    """
    whole = queries.shape[0] // QUERIES_TOGETHER * QUERIES_TOGETHER
    masked = excluded.shape[0] > 0
    for row in range(start, stop):
        if masked and excluded[row]:
            continue
        for first in range(0, whole, QUERIES_TOGETHER):
            some = _some_cosines(points, row, queries, first)
            for j in range(QUERIES_TOGETHER):
                b = first + j
                if some[j] <= limits[b]:
                    counts[b] = offer(violations[b], found[b], counts[b], some[j], ids[row])
        for b in range(whole, queries.shape[0]):
            one = _cosine(points, row, queries, b)
            if one <= limits[b]:
                counts[b] = offer(violations[b], found[b], counts[b], one, ids[row])


@kernel
def score_rows(
    points: Points,
    rows: Ids,
    starts: Ids,
    queries: Points,
    form: int,
    start: int,
    stop: int,
    violations: Points,
) -> None:
    """Score the chosen rows [start, stop) of points (R, N): violations (n,).

    Those that meet query b of `queries` (B, N) are rows[starts[b] : starts[b + 1]].
    """
    for b in range(queries.shape[0]):
        for at in range(max(start, starts[b]), min(stop, starts[b + 1])):
            if at + _ROWS_AHEAD < stop:
                _fetch_row(points, rows[at + _ROWS_AHEAD])
            violations[at] = score(points, rows[at], queries, b, form)
