"""A scan that leaves a row early, after the coordinates that weigh most with the query.

Every term of an order violation is non-negative, so the sum over some coordinates is a lower
bound. A query visits the chunks of a row (cache lines of 16 coordinates) in the order of what they
add on average, and leaves the row as soon as the sum exceeds the violation of the worst hit. On
trained embeddings of 1,024 coordinates that is after 15 of 64 chunks (images by caption) or 22
(captions by image), if heavy coordinates are neighbours, as Hasse's trainer leaves them. A row
that is not left is scored whole by `violation`, so its bits do not depend on this.

    chunks (B, C) uint64: the first coordinates of the chunks, heaviest first
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import kernel, reduction
from hasse.index.kernels.heap import push
from hasse.index.kernels.prefetch import prefetch
from hasse.index.kernels.violations import CHUNK, relative_error, squared_gap, violation
from hasse.index.types import Ids, Orientation, Points

GROUP = 8  # chunks between two looks at the sum
BLOCK = 256  # rows that take each step together, so that their loads overlap

_ROWS_AHEAD = 16  # between the row whose first chunks are read and the one whose are fetched
_SAMPLE = 64  # rows that tell which chunks are heavy
# Numba tests signed indices for being negative, and then the loop cannot use vectors.
_UNSIGNED_CHUNK = np.uint64(CHUNK)


@lru_cache(maxsize=16)
def slack_of(dimension: int) -> NDArray[np.float64]:
    """Return (m, a): a row whose partial sum exceeds m * limit + a has a violation above limit.

    Both are float32 sums, each with its rounding, and without what vanishes in the squares of
    the smallest gaps.
    """
    return np.array([1 + 4 * relative_error(dimension), dimension * 2.0**-125])


def heaviest_chunks(
    points: Points, queries: Points, orientation: Orientation
) -> NDArray[np.uint64]:
    """Order the chunks for each query (B, N) by what they add to the violations of some rows."""
    weights = np.zeros((len(queries), queries.shape[1] // CHUNK), np.float32)
    count = weights.shape[1] // GROUP * GROUP
    if count:
        _weigh(points, queries, int(orientation), weights)
    order = np.argsort(-weights, axis=1, kind="stable")[:, :count]
    return np.ascontiguousarray((order * CHUNK).astype(np.uint64))


@kernel
def _weigh(points: Points, queries: Points, orientation: int, weights: Points) -> None:
    every = max(1, points.shape[0] // _SAMPLE)
    for row in range(0, points.shape[0], every):
        for b in range(queries.shape[0]):
            for chunk in range(weights.shape[1]):
                part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
                weights[b, chunk] += violation(points[row, part], queries[b, part], orientation)


@reduction
def _sum(general: Points, specific: Points, starts: NDArray[np.uint64]) -> Any:
    """Return what one group of chunks (GROUP,) adds to the violation of two points (N,)."""
    a, b, c, d = starts[0], starts[1], starts[2], starts[3]
    e, f, g, h = starts[4], starts[5], starts[6], starts[7]
    total = np.float32(0)
    for j in range(_UNSIGNED_CHUNK):
        total += (
            squared_gap(general[a + j], specific[a + j])
            + squared_gap(general[b + j], specific[b + j])
            + squared_gap(general[c + j], specific[c + j])
            + squared_gap(general[d + j], specific[d + j])
            + squared_gap(general[e + j], specific[e + j])
            + squared_gap(general[f + j], specific[f + j])
            + squared_gap(general[g + j], specific[g + j])
            + squared_gap(general[h + j], specific[h + j])
        )
    return total


@kernel
def _fetch(points: Points, row: int, starts: NDArray[np.uint64]) -> None:
    """Bring one group of chunks (GROUP,) of a row to the cache."""
    prefetch(points, row, starts[0])
    prefetch(points, row, starts[1])
    prefetch(points, row, starts[2])
    prefetch(points, row, starts[3])
    prefetch(points, row, starts[4])
    prefetch(points, row, starts[5])
    prefetch(points, row, starts[6])
    prefetch(points, row, starts[7])


@kernel
def _rule_out(
    points: Points,
    rows: Ids,
    sums: Points,
    count: int,
    query: Points,
    orientation: int,
    chunks: NDArray[np.uint64],
    most: float,
) -> int:
    """Move those of `count` rows whose sums stay within `most` to the front; return how many."""
    sums[:count] = 0
    for first in range(0, chunks.shape[0], GROUP):
        starts, survivors = chunks[first : first + GROUP], 0
        following = chunks[first + GROUP : first + 2 * GROUP]
        for at in range(count):
            point = points[rows[at]]
            if first == 0:
                _fetch(points, rows[at] + _ROWS_AHEAD, starts)
            if orientation == Orientation.QUERY_GENERAL:
                total = sums[at] + _sum(query, point, starts)
            else:
                total = sums[at] + _sum(point, query, starts)
            rows[survivors], sums[survivors] = rows[at], total
            possible = total <= most
            # For a row that is ruled out, name one that is in the cache: cheaper than a branch.
            fetched = rows[survivors - (not possible and survivors > 0)]
            if following.shape[0]:
                _fetch(points, fetched, following)
            survivors += possible
        count = survivors
        if count == 0:
            break
    return count


@kernel
def scan_order(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    orientation: int,
    chunks: NDArray[np.uint64],
    slack: NDArray[np.float64],
    start: int,
    stop: int,
    violations: Points,
    found: Ids,
) -> None:
    """Score the live rows [start, stop) with all queries by an order, and keep the best of each.

    `chunks` are those of `heaviest_chunks`, `slack` is that of `slack_of`; all else is as in
    `hasse.index.kernels.violations.scan_cosine`.
    """
    masked = excluded.shape[0] > 0
    rows, sums = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.float32)
    for first in range(start, stop, BLOCK):
        for b in range(queries.shape[0]):
            count = 0
            for row in range(first, min(first + BLOCK, stop)):
                rows[count] = row
                count += not (masked and excluded[row])
            most = np.float64(violations[b, 0]) * slack[0] + slack[1]
            query = queries[b]
            count = _rule_out(points, rows, sums, count, query, orientation, chunks[b], most)
            for at in range(count):
                one = violation(points[rows[at]], query, orientation)
                if one <= violations[b, 0]:
                    push(violations[b], found[b], one, ids[rows[at]])
