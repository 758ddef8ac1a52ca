"""Searches in numpy, for a process that answers one question: every row is scored.

The compiled kernels take a second to load. A scan of `MOST_BYTES` of points takes a fifth of it.
The answers are those of the compiled search, to the rounding of float32.

Shapes: r rows of a block, N coordinates, P parts, k hits.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.arrays import release_memory
from hasse.index.search.query import Answer, Query, RowCounts, Seconds
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids, Orientation, Points, Relation
from hasse.models.score import violation

MOST_BYTES = 400 << 20  # of the points of one kind: 100,000 rows of 1,024 coordinates
_BLOCK_BYTES = 1 << 19  # of points, which stay in a core's cache while they are scored

# The directions whose violations add up; see `hasse.index.search.similar`.
SIMILAR: dict[Relation, list[Orientation]] = {
    "more_specific": [Orientation.QUERY_GENERAL],
    "more_general": [Orientation.STORED_GENERAL],
    "alike": [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL],
}


def ways(orientation: Orientation, relation: Relation | None) -> list[Orientation]:
    """Return the directions whose violations add up to that of a row of a segment."""
    if relation is None or orientation is Orientation.COSINE:
        return [orientation]
    return SIMILAR[relation]


class PlainSearch:
    """Scores every row with every part of a query."""

    def answers(self, snapshot: Snapshot, queries: Points, query: Query) -> list[Answer]:
        """Answer each of `queries` (B, N)."""
        alone = (_answer(snapshot, point[None], query) for point in queries)
        return [replace(answer, parts=None) for answer in alone]

    def joint_answer(self, snapshot: Snapshot, parts: Points, query: Query) -> Answer:
        """Return the rows whose worst violation over `parts` (P, N) is smallest."""
        return _answer(snapshot, parts, query)

    def violations(self, points: Points, query: Points, orientation: Orientation) -> Points:
        """Return the violations (r,) of points (r, N) with a query (N,)."""
        return violations(points, query, orientation)


def violations(points: Points, query: Points, orientation: Orientation) -> Points:
    """Return the violations (r,) of points (r, N) with a query (N,)."""
    if orientation is Orientation.COSINE:
        # As of `violation`, a row's bits do not depend on the rows beside it.
        found: Points = np.float32(1) - np.einsum("ij,j->i", points, query)
        return found
    if orientation is Orientation.QUERY_GENERAL:
        return violation(points, query)
    return violation(query, points)


def _answer(snapshot: Snapshot, parts: Points, query: Query) -> Answer:
    started = time.perf_counter()
    scored = [_scored(live, parts, query) for live in snapshot.of(query.kind)]
    ids = np.concatenate([np.empty(0, np.int64), *(own for own, _ in scored)])
    each = np.concatenate([np.empty((0, len(parts)), np.float32), *(one for _, one in scored)])
    worst = each.max(1)
    hits = np.flatnonzero(worst.astype(np.float64) <= query.limit)  # NaN is none
    hits = hits[np.lexsort((ids[hits], worst[hits]))[: query.k]]
    answer = scanned(snapshot, query, ids[hits], worst[hits], parts.nbytes, started)
    return replace(answer, parts=each[hits])


def scanned(
    snapshot: Snapshot, query: Query, ids: Ids, violations: Points, size: int, started: float
) -> Answer:
    """Return the answer of a scan, of `size` bytes a row, that began at a time of `perf_counter`.

    `ids` and `violations` (k,) are those of the hits.
    """
    segments = snapshot.of(query.kind)
    rows = sum(live.live for live in segments)
    return Answer(
        ids=ids,
        violations=violations,
        mode=query.mode,
        certified=True,
        searched=rows,
        rescored=rows,
        generation=snapshot.generation,
        plan=f"{len(segments)} scan" if segments else "",
        work=RowCounts(rows, 0, 0, 0, 0, rows * size),
        seconds=Seconds(0.0, time.perf_counter() - started),
    )


def _scored(live: LiveSegment, parts: Points, query: Query) -> tuple[Ids, Points]:
    """Return the ids (R,) of the live rows of a segment, and their violations (R, P)."""
    segment, rows = live.segment, live.rows()
    each: NDArray[np.float32] = np.zeros((len(rows), len(parts)), np.float32)
    step = max(1, _BLOCK_BYTES // parts[0].nbytes)
    for at in range(0, len(rows), step):
        points = segment.points[rows[at : at + step]]
        for p, part in enumerate(parts):
            for way in ways(segment.orientation, query.relation):
                each[at : at + step, p] += violations(points, part, way)
        release_memory(segment.points)  # or all that were read would count as memory
    return segment.ids[rows], each
