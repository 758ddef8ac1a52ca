"""Images like an image: the nearest ones, more specific ones, or more general ones.

With E(x, y) = || max(0, y - x) ||^2, a stored image s and the query image q:

    more_specific    E(s, q): coordinates that q has and s lacks
    more_general     E(q, s): coordinates that s has and q lacks
    alike            E(s, q) + E(q, s) = || s - q ||^2

The bounds of a segment hold only for the first, so every row is scored. Under the score cosine,
which is symmetric, all three are 1 - <s, q>.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.search.plain import orientations_for, scan_answer
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import score_rows
from hasse.index.search.top_k import TopK
from hasse.index.segments.snapshot import Snapshot
from hasse.index.types import Points, Relation

_BLOCK = 65_536  # rows that are scored at once, for bounded memory


def search_similar(
    snapshot: Snapshot, queries: Points, query: Query, relation: Relation, workers: Workers
) -> Iterator[Answer]:
    """Answer each of `queries` (B, N) by scoring every row; they are of the kind of the hits."""
    for point in queries[:, None]:
        started = time.perf_counter()
        best = TopK(1, query.k, query.limit)
        for live in snapshot.segments_of(query.kind):
            segment, rows = live.segment, live.rows()
            orientations = orientations_for(segment.orientation, relation)
            for at in range(0, len(rows), _BLOCK):
                block = Candidates.of([rows[at : at + _BLOCK]])
                violations = np.zeros(len(block.rows), np.float32)
                for orientation in orientations:
                    violations += score_rows(segment.points, block, point, orientation, workers)
                best.add(segment.ids[block.rows], block.starts, violations)
        (hits,) = best.hits()
        yield scan_answer(snapshot, query, hits.ids, hits.violations, point.nbytes, started)
