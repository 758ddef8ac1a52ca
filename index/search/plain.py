"""Searches in numpy, for a process that answers one question: every row is scored.

Loading the compiled kernels takes a second. A scan of `MAX_BYTES` of points takes a fifth of that.
The answers equal those of the compiled search, up to the rounding of float32.

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
from hasse.models.order import violation

MAX_BYTES = 400 << 20  # of the points of one kind: 100,000 rows of 1,024 coordinates
_BLOCK_BYTES = 1 << 19  # of points, which stay in a core's cache while they are scored

# The violation of a relation is the sum over these; see `hasse.index.search.similar`.
_SIMILAR: dict[Relation, list[Orientation]] = {
    "more_specific": [Orientation.QUERY_GENERAL],
    "more_general": [Orientation.STORED_GENERAL],
    "alike": [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL],
}


def orientations_for(orientation: Orientation, relation: Relation | None) -> list[Orientation]:
    """Return the orientations to sum over for the violation of a row.

    `orientation` is the segment's own.
    """
    if relation is None or orientation is Orientation.COSINE:
        return [orientation]
    return _SIMILAR[relation]


class PlainSearch:
    """Scores every row with every part of a query."""

    def answers(self, snapshot: Snapshot, queries: Points, query: Query) -> list[Answer]:
        """Answer each of `queries` (B, N)."""
        answers = (_answer(snapshot, point[None], query) for point in queries)
        return [replace(answer, parts=None) for answer in answers]

    def joint_answer(self, snapshot: Snapshot, parts: Points, query: Query) -> Answer:
        """Return the rows whose worst violation over `parts` (P, N) is smallest."""
        return _answer(snapshot, parts, query)

    def violations(self, points: Points, query: Points, orientation: Orientation) -> Points:
        """Return the violations (r,) of points (r, N) with a query (N,)."""
        return violations(points, query, orientation)


def violations(points: Points, query: Points, orientation: Orientation) -> Points:
    """Return the violations (r,) of points (r, N) with a query (N,)."""
    if orientation is Orientation.COSINE:
        # Not a matrix product, so that a row's bits do not depend on the other rows.
        result: Points = np.float32(1) - np.einsum("ij,j->i", points, query)
        return result
    if orientation is Orientation.QUERY_GENERAL:
        return violation(points, query)
    return violation(query, points)


def _answer(snapshot: Snapshot, parts: Points, query: Query) -> Answer:
    started = time.perf_counter()
    scores = [_score(live, parts, query) for live in snapshot.segments_of(query.kind)]
    ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in scores)])
    by_part = np.concatenate([np.empty((0, len(parts)), np.float32), *(part for _, part in scores)])
    worst = by_part.max(1)
    hits = np.flatnonzero(worst.astype(np.float64) <= query.limit)  # false for NaN
    hits = hits[np.lexsort((ids[hits], worst[hits]))[: query.k]]
    answer = scan_answer(snapshot, query, ids[hits], worst[hits], parts.nbytes, started)
    return replace(answer, parts=by_part[hits])


def scan_answer(
    snapshot: Snapshot, query: Query, ids: Ids, violations: Points, size: int, started: float
) -> Answer:
    """Return the answer of a scan with the `ids` and `violations` (k,) of its hits.

    The scan read `size` bytes of each row, and `started` is its start by `time.perf_counter`.
    """
    segments = snapshot.segments_of(query.kind)
    rows = sum(live.live_rows for live in segments)
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


def _score(live: LiveSegment, parts: Points, query: Query) -> tuple[Ids, Points]:
    """Return the ids (R,) of the live rows of a segment, and their violations (R, P)."""
    segment, rows = live.segment, live.rows()
    by_part: NDArray[np.float32] = np.zeros((len(rows), len(parts)), np.float32)
    step = max(1, _BLOCK_BYTES // parts[0].nbytes)
    for at in range(0, len(rows), step):
        points = segment.points[rows[at : at + step]]
        for p, part in enumerate(parts):
            for orientation in orientations_for(segment.orientation, query.relation):
                by_part[at : at + step, p] += violations(points, part, orientation)
        release_memory(segment.points)  # pages that were read count as memory of the process
    return segment.ids[rows], by_part
