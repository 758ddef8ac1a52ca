"""Exact violations on the CPU, as fast as memory can be read.

All kernels call `violation`, so on one machine the bits of a violation do not depend on the batch,
the thread or the segment, and ties stay ties. The kernels release the GIL; callers divide the rows
among threads.

Each term of an order violation is non-negative, so the relative error of the float32 result is at
most `relative_error(N)`. Proofs rely on it.

Shapes: R stored rows, B queries, N coordinates, k hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import kernel, reduction
from hasse.index.kernels.heap import push
from hasse.index.types import Ids, Orientation, Points


def relative_error(dimension: int) -> float:
    """Bound |computed - true| / true for an order violation of `dimension` coordinates.

    A difference is rounded once, its square once, and N terms are added in any order: N + 2
    roundings of 2^-24 (Higham, "Accuracy and Stability of Numerical Algorithms", lemma 3.1).
    """
    roundings = (dimension + 2) * 2.0**-24
    return roundings / (1 - roundings)


@reduction
def violation(point: Points, query: Points, orientation: int) -> Any:
    """Return the float32 violation of a stored point (N,) with a query (N,)."""
    total = np.float32(0)
    if orientation == Orientation.QUERY_GENERAL:
        for j in range(query.shape[0]):
            total += max(query[j] - point[j], np.float32(0)) ** 2
    elif orientation == Orientation.STORED_GENERAL:
        for j in range(query.shape[0]):
            total += max(point[j] - query[j], np.float32(0)) ** 2
    else:
        for j in range(query.shape[0]):
            total += point[j] * query[j]
        total = np.float32(1) - total
    return total


@kernel
def scan_rows(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    orientation: int,
    start: int,
    stop: int,
    violations: Points,
    best_ids: Ids,
) -> None:
    """Score the live rows [start, stop) with all queries, and keep the best of each.

    points (R, N), ids (R,), excluded (R,) or (0,) if all are live, queries (B, N). `violations` and
    `best_ids` (B, k) are heaps (`hasse.index.kernels.heap`).
    """
    masked = excluded.shape[0] > 0
    for row in range(start, stop):
        if masked and excluded[row]:
            continue
        for b in range(queries.shape[0]):
            score = violation(points[row], queries[b], orientation)
            if score <= violations[b, 0]:
                push(violations[b], best_ids[b], score, ids[row])


@kernel
def score_candidates(
    points: Points,
    rows: Ids,
    starts: Ids,
    queries: Points,
    orientation: int,
    start: int,
    stop: int,
    violations: Points,
) -> None:
    """Write the violations (n,) of the candidates [start, stop) in points (R, N).

    The candidates of query b of `queries` (B, N) are rows[starts[b] : starts[b + 1]].
    """
    for b in range(queries.shape[0]):
        for at in range(max(start, starts[b]), min(stop, starts[b + 1])):
            violations[at] = violation(points[rows[at]], queries[b], orientation)
