"""Leaving a row early: cache lines of the points, those that weigh most with the query first.

Every term of an order violation is non-negative, so the sum over some coordinates is a lower
bound. A query visits the lines of a row in the order of what they add on average, and leaves the
row as soon as the sum exceeds what a hit may have: on trained embeddings of 1,024 coordinates
after 15 of 64 lines (images by caption) or 22 (captions by image). That takes heavy coordinates
that are neighbours, as Hasse's trainer leaves them; in any other order it is 22 and 38. A row that
is not left is scored whole by `index.kernels.violations`, so the bits of its violation do not
depend on this.

    lines (B, L) int32: line l of a point holds the coordinates [16 l, 16 l + 16)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.extending import intrinsic
from numpy.typing import NDArray

from index.kernels import llvm
from index.kernels.llvm import LINE
from index.kernels.violations import kernel, offer, relative_error, score, term
from index.types import Form, Ids, Points

types: Any = _types

GROUP = 8  # lines between two looks at the sum
# Rows that take each step together: no branch depends on one row alone, and while some are looked
# at the next lines of the others arrive.
TOGETHER = 128

_SAMPLE = 64  # rows that tell which lines are heavy
_AHEAD = 16  # rows between the one whose first lines are read and the one whose are fetched


@lru_cache(maxsize=16)
def slack_of(dimension: int) -> NDArray[np.float64]:
    """Return (m, a): a row whose partial sum exceeds m * limit + a has a violation above limit.

    Both are float32 sums, each with its rounding, and without what vanishes in the squares of
    the smallest gaps.
    """
    return np.array([1 + 4 * relative_error(dimension), dimension * 2.0**-125])


@kernel
def _gaps(points: Points, queries: Points, form: int, weights: NDArray[np.float32]) -> None:
    every = max(1, points.shape[0] // _SAMPLE)
    for row in range(0, points.shape[0], every):
        for b in range(queries.shape[0]):
            for line in range(weights.shape[1]):
                total = np.float32(0)
                for j in range(line * LINE, (line + 1) * LINE):
                    gap = queries[b, j] - points[row, j]
                    if form == 1:
                        gap = -gap
                    total += max(gap, np.float32(0)) ** 2
                weights[b, line] += total


def heaviest_lines(points: Points, queries: Points, form: Form) -> NDArray[np.int32]:
    """Order the lines for each query (B, N) by what they add to the violations of some rows."""
    weights = np.zeros((len(queries), queries.shape[1] // LINE), np.float32)
    if weights.shape[1] >= GROUP:
        _gaps(points, queries, int(form), weights)
    count = weights.shape[1] // GROUP * GROUP
    order = np.argsort(-weights, axis=1, kind="stable")[:, :count]
    return np.ascontiguousarray(order.astype(np.int32))


def _bounder(form: Form) -> Any:
    """Make the sum over one group of lines: (points, row, queries, b, lines, group) -> float."""

    def typed(
        _context: Any, points: Any, row: Any, queries: Any, b: Any, lines: Any, group: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored, asked, order = llvm.arrays(context, builder, signature, args, (0, 2, 4))
            dimension = builder.extract_value(stored.shape, 1)
            row_at = llvm.row(builder, stored, args[1], dimension)
            query_at = llvm.row(builder, asked, args[3], dimension)
            totals = [ir.Constant(llvm.FLOATS, None)] * 4
            for at, line in enumerate(_group(builder, order, args[3], args[5])):
                held, wanted = (
                    llvm.load(builder, llvm.FLOATS, end, line) for end in (row_at, query_at)
                )
                totals[at % 4] = term(builder, form, held, wanted, totals[at % 4])
            return llvm.total(builder, totals)

        whole = types.int64
        return types.float32(points, whole, queries, whole, lines, whole), generate

    return intrinsic(typed)


def _group(builder: Any, order: Any, b: Any, group: Any) -> Iterator[Any]:
    """Emit where each line of a group begins in a point."""
    own = llvm.row(builder, order, b, builder.extract_value(order.shape, 1))
    first = builder.gep(own, [builder.mul(group, llvm.const(GROUP))])
    for at in range(GROUP):
        line = builder.load(builder.gep(first, [llvm.const(at)]))
        yield builder.mul(builder.sext(line, llvm.INT), llvm.const(LINE))


def _fetcher(_context: Any, points: Any, row: Any, lines: Any, b: Any, group: Any) -> Any:
    """Type the operation that asks for a group of lines of a row to be brought."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored, order = llvm.arrays(context, builder, signature, args, (0, 2))
        row_at = llvm.row(builder, stored, args[1], builder.extract_value(stored.shape, 1))
        for line in _group(builder, order, args[3], args[4]):
            llvm.prefetch(builder, builder.gep(row_at, [line]))
        return context.get_dummy_value()

    return types.void(points, row, lines, b, types.int64), generate


_fetch: Any = intrinsic(_fetcher)
_above = _bounder(Form.QUERY_ABOVE)
_below = _bounder(Form.STORED_ABOVE)


@kernel
def _leave(
    points: Points,
    left: Ids,
    totals: NDArray[np.float32],
    count: int,
    queries: Points,
    b: int,
    form: int,
    lines: NDArray[np.int32],
    above: float,
) -> int:
    # Move the rows that may be hits to the front of `left` (n,); return how many there are.
    totals[:count] = 0
    groups = lines.shape[1] // GROUP
    for group in range(groups):
        kept = 0
        for at in range(count):
            row = left[at]
            if group == 0:
                _fetch(points, row + _AHEAD, lines, b, 0)
            if form == 0:
                total = totals[at] + _above(points, row, queries, b, lines, group)
            else:
                total = totals[at] + _below(points, row, queries, b, lines, group)
            left[kept] = row
            totals[kept] = total
            possible = total <= above
            if group + 1 < groups:
                # A row that is left needs no more lines: name one that is in the cache already,
                # since nobody foresees a branch.
                _fetch(points, left[kept - (not possible and kept > 0)], lines, b, group + 1)
            kept += possible
        count = kept
        if count == 0:
            break
    return count


@kernel
def scan_lines(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    form: int,
    lines: NDArray[np.int32],
    slack: NDArray[np.float64],
    start: int,
    stop: int,
    limits: NDArray[np.float64],
    violations: Points,
    found: Ids,
    counts: Ids,
) -> None:
    """Do by an order what `kernels.scan_rows` does by cosine, leaving rows that are no hits early.

    lines (B, L) are of `heaviest_lines`, slack of `slack_of`; all else is as there.
    """
    room = violations.shape[1]
    masked = excluded.shape[0] > 0
    left = np.empty(TOGETHER, np.int64)
    totals = np.empty(TOGETHER, np.float32)
    for first in range(start, stop, TOGETHER):
        for b in range(queries.shape[0]):
            count = 0
            for row in range(first, min(first + TOGETHER, stop)):
                left[count] = row
                count += not (masked and excluded[row])
            limit = limits[b]
            if counts[b] == room:
                limit = np.float64(violations[b, 0])
            above = limit * slack[0] + slack[1]
            count = _leave(points, left, totals, count, queries, b, form, lines, above)
            for at in range(count):
                one = score(points, left[at], queries, b, form)
                if one <= limits[b]:
                    counts[b] = offer(violations[b], found[b], counts[b], one, ids[left[at]])
