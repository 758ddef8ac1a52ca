"""Exact scores of all rows of a segment, or of those chosen for each query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels.early_exit import heaviest_lines, scan_lines, slack_of
from index.kernels.threads import Workers
from index.kernels.violations import scan_rows
from index.kernels.violations import score_rows as score_range
from index.search.candidates import Chosen
from index.search.top_k import Best
from index.segments.arrays import read_only
from index.types import Form, Ids, Points


def scan(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    best: Best,
    *,
    form: Form,
    workers: Workers,
) -> None:
    """Score every live row with every query and offer it to the best so far.

    points (R, N), ids (R,), excluded (R,) or (0,) when all live, queries (B, N).
    """
    queries, limits = read_only(queries), best.limits()
    order = None if form is Form.COSINE else heaviest_lines(points, queries, form)
    slack = slack_of(points.shape[1])

    def part(edges: tuple[int, int]) -> tuple[Ids, Points]:
        room = (len(queries), min(best.k, edges[1] - edges[0]))
        violations, found = np.full(room, np.nan, np.float32), np.empty(room, np.int64)
        places = (*edges, limits, violations, found, np.zeros(len(queries), np.int64))
        if order is None:
            scan_rows(points, ids, excluded, queries, *places)
        else:
            scan_lines(points, ids, excluded, queries, int(form), order, slack, *places)
        return found, violations

    ranges = workers.ranges(len(ids), 4 * points.shape[1] * len(queries))
    for found, violations in workers.map(part, ranges):
        starts = np.arange(len(queries) + 1) * found.shape[1]
        best.add(found.reshape(-1), starts, violations.reshape(-1))


def score_rows(
    points: Points, chosen: Chosen, queries: Points, form: Form, workers: Workers
) -> Points:
    """Return the violations (n,) of the rows that were chosen for queries (B, N)."""
    violations = np.empty(len(chosen.rows), np.float32)
    queries = read_only(queries)

    def part(edges: tuple[int, int]) -> None:
        asked = (chosen.rows, chosen.starts, queries, int(form))
        score_range(points, *asked, *edges, violations)

    workers.map(part, workers.ranges(len(chosen.rows), 4 * points.shape[1]))
    return violations
