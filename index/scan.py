"""Exact scores of all rows of a segment, or of those chosen for each query; and threads."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from index import kernels
from index.chosen import Chosen
from index.hits import Best
from index.lines import heaviest_lines, scan_lines, slack_of
from index.terms import Form, Ids, Points

A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S", bound=np.generic)

# Less than this is not worth a second thread: handing over costs about 50 us, in which one core
# reads a megabyte.
_BYTES_PER_TASK = 4 << 20


class Workers:
    """The threads that kernels run on. Kernels release the GIL, so plain threads suffice."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def map(self, work: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Run `work` on every item and return the results in order."""
        helpers = min(len(items), self.threads) - 1
        if helpers < 1:
            return [work(item) for item in items]
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="hasse-kernel")
            pool = self._pool
        results: dict[int, B] = {}
        left = enumerate(items)  # which threads share: each `next` is one step of theirs

        def take() -> None:
            for at, item in left:
                results[at] = work(item)

        helping = [pool.submit(take) for _ in range(helpers)]
        try:
            take()
        finally:
            # A helper that has not come yet is not waited for: there is nothing left to do.
            wait(one for one in helping if not one.cancel())
        for one in helping:
            if not one.cancelled():
                one.result()
        return [results[at] for at in range(len(items))]

    def ranges(self, count: int, bytes_each: int) -> list[tuple[int, int]]:
        """Divide `count` rows into ranges of similar size, several for each thread."""
        parts = min(4 * self.threads, count * bytes_each // _BYTES_PER_TASK)
        if parts < 2 or self.threads < 2:
            return [(0, count)] if count else []
        edges = np.linspace(0, count, parts + 1).astype(int).tolist()
        return list(itertools.pairwise(edges))

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def read_only(array: NDArray[S]) -> NDArray[S]:
    """Return the same memory as a plain contiguous array that cannot be written.

    Every array reaches the kernels in this one form, so that each is compiled once.
    """
    if type(array) is np.ndarray and array.flags.c_contiguous and not array.flags.writeable:
        return array
    plain = np.ascontiguousarray(array).view(np.ndarray)
    plain.flags.writeable = False
    return plain


def scan(
    points: Points,
    ids: Ids,
    dead: NDArray[np.bool_],
    queries: Points,
    best: Best,
    *,
    form: Form,
    workers: Workers,
) -> None:
    """Score every live row with every query and offer it to the best so far.

    points (R, N), ids (R,), dead (R,) or (0,) when all live, queries (B, N).
    """
    queries, limits = read_only(queries), best.limits()
    order = None if form is Form.COSINE else heaviest_lines(points, queries, form)
    slack = slack_of(points.shape[1])

    def part(edges: tuple[int, int]) -> tuple[Ids, Points]:
        room = (len(queries), min(best.k, edges[1] - edges[0]))
        violations, found = np.full(room, np.nan, np.float32), np.empty(room, np.int64)
        places = (*edges, limits, violations, found, np.zeros(len(queries), np.int64))
        if order is None:
            kernels.scan_rows(points, ids, dead, queries, int(form), *places)
        else:
            scan_lines(points, ids, dead, queries, int(form), order, slack, *places)
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
        kernels.score_rows(points, *asked, *edges, violations)

    workers.map(part, workers.ranges(len(chosen.rows), 4 * points.shape[1]))
    return violations
