"""The search: candidates bound the k-th violation from above, codes bound each row from below.

A row can be among the k best only when its lower bound does not exceed the k-th best exact
violation known so far. Once every row with so small a bound has been scored exactly, the k best of
those are the k best of all, and the answer is proved. Segments too small for codes are scanned.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.bounds import Bounded
from index.hits import NOTHING, Hits, best, merge
from index.kernels import kernel
from index.plan import is_scanned
from index.query import Answer, Query, Stages, Touched, plan_of
from index.scan import Workers, scan, score_rows
from index.segment import Segment
from index.snapshot import LiveSegment, Snapshot
from index.terms import Ids, Mode, Points

if TYPE_CHECKING:
    from index.accelerator import Accelerator, Resident

# Without a prefilter, candidates are chosen by the coordinates that are expected to add this share
# of the violation.
_SHARE = 0.6
# A proof needs a k-th violation that is good to a per cent; `fast` lives by its candidates alone,
# and needs more of them among more rows.
_CANDIDATES: dict[Mode, int] = {"certified": 128, "fast": 600}
_FAST_PER_ROOT = 2  # candidates for each of the square root of the rows
_CANDIDATES_PER_HIT = 4
# Where so small a share of a segment is alive (the rest deleted, or not selected), scoring all of
# it reads fewer bytes than a scan of the codes.
_FEW = 64


def search(
    snapshot: Snapshot,
    queries: Points,
    query: Query,
    workers: Workers,
    accelerator: Accelerator | None = None,
) -> list[Answer]:
    """Answer each of `queries` (B, N) over one generation.

    What the accelerator holds is scanned there: it reads all points sooner than a CPU reads codes.
    """
    started = time.perf_counter()
    tasks: list[_Task] = []
    scans: list[LiveSegment] = []
    residents: list[tuple[LiveSegment, Resident]] = []
    for live in snapshot.of(query.kind):
        resident = accelerator.resident(live.segment) if accelerator is not None else None
        if resident is not None and query.mode != "fast":
            residents.append((live, resident))
        elif is_bounded(live, query, len(queries)):
            tasks.append(_Task(live, queries, query, workers))
        else:
            scans.append(live)
    for task in tasks:
        task.propose()
    proposed = time.perf_counter()

    best_so_far = _Best(len(queries), query)
    for task in tasks:
        best_so_far.add(task.score_candidates())
    for live, resident in residents:
        limits = best_so_far.limits()
        rows = resident.shortlist(live.dead, queries, query.k, limits)
        best_so_far.add(_score(live.segment, rows, queries, query.k, limits, workers))
    for live in scans:
        best_so_far.add(_scan(live, queries, query.k, best_so_far.limits(), workers))
    if query.mode == "certified":
        for task in tasks:
            best_so_far.add(task.score_survivors(best_so_far.limits()))
    limits = best_so_far.limits()
    ended = time.perf_counter()

    batch = max(1, len(queries))
    scanned = sum(live.live for live in scans) + sum(live.live for live, _ in residents)
    ways = [task.way for task in tasks] + ["scan"] * len(scans) + ["device"] * len(residents)
    plan = plan_of(ways)
    return [
        Answer(
            ids=found.ids,
            violations=found.violations,
            mode=query.mode,
            certified=all(task.proves(b, limits[b]) for task in tasks),
            searched=snapshot.live(query.kind),
            rescored=scanned + sum(task.scored(b) for task in tasks),
            generation=snapshot.generation,
            plan=plan,
            touched=Touched(
                scanned=scanned,
                proposed=sum(len(task.candidates[b]) for task in tasks),
                bounded=sum(task.live.segment.rows for task in tasks if task.survivors),
                checked=sum(task.checked[b] for task in tasks if task.checked),
                left=sum(task.left[b] for task in tasks if task.left),
                bytes=4 * queries.shape[1] * scanned + sum(task.read(b) for task in tasks),
            ),
            seconds=Stages((proposed - started) / batch, (ended - proposed) / batch),
        )
        for b, found in enumerate(best_so_far.found)
    ]


class _Best:
    """The best hits of each query so far."""

    def __init__(self, count: int, query: Query) -> None:
        self.found = [NOTHING] * count
        self._query = query

    def add(self, hits: list[Hits]) -> None:
        """Take in the hits of rows that were not taken in before."""
        pairs = zip(self.found, hits, strict=True)
        self.found = [merge(pair, self._query.k) for pair in pairs]

    def limits(self) -> NDArray[np.float64]:
        """Return, for each query, the violation that none of its top k exceeds."""
        k, limit = self._query.k, self._query.limit
        return np.array([hits.bound(k, limit) for hits in self.found], np.float64)


@dataclass(slots=True, eq=False)
class _Task:
    """The search of one large segment."""

    live: LiveSegment
    queries: Points
    query: Query
    workers: Workers
    bounded: Bounded | None = None
    candidates: list[Ids] = field(default_factory=list)  # rows, ascending
    others: list[float] = field(default_factory=list)  # a violation that no other row is below
    survivors: list[Ids] | None = None  # of the rows left, those scored
    checked: list[int] = field(default_factory=list)  # how many rows had their bytes read
    left: list[int] = field(default_factory=list)  # how many rows the codes did not rule out

    @property
    def way(self) -> str:
        """How the rows are searched, in a word."""
        if self.query.mode == "certified":
            return "heaviest+bounds"
        return "prefilter" if self.live.segment.prefilter else "heaviest"

    def propose(self) -> None:
        """Choose candidates for every query: by FAISS, or by the codes' heaviest coordinates."""
        segment, dead, mode = self.live.segment, self.live.dead, self.query.mode
        count = _proposed(self.query, segment.rows)
        if self.live.live <= max(count, segment.rows // _FEW):
            rows = np.flatnonzero(~dead) if len(dead) else np.arange(segment.rows)
            self.candidates = [rows] * len(self.queries)
        elif segment.prefilter is not None and mode == "fast":
            self.candidates = segment.prefilter.candidates(self.queries, count, dead)
        elif segment.bounds is not None:
            self.bounded = segment.bounds.begin(self.queries)
            for b in range(len(self.queries)):
                rows, rest = segment.bounds.propose(
                    self.bounded, b, count, _SHARE, dead, self.workers
                )
                self.candidates.append(rows)
                self.others.append(rest)

    def score_candidates(self) -> list[Hits]:
        """Return the candidates' hits."""
        limits = np.full(len(self.queries), self.query.limit)
        return self._hits(self.candidates, limits)

    def score_survivors(self, limits: NDArray[np.float64]) -> list[Hits]:
        """Return the hits among all other rows whose violation may be within the limits."""
        bounds = self.live.segment.bounds
        if bounds is None or self.bounded is None:
            return [NOTHING] * len(self.queries)
        possible, self.checked = bounds.survivors(
            self.bounded, self.live.dead, limits, self.workers
        )
        self.left = [len(rows) for rows in possible]
        self.survivors = [
            without(rows, known) for rows, known in zip(possible, self.candidates, strict=True)
        ]
        return self._hits(self.survivors, limits)

    def scored(self, b: int) -> int:
        """Return how many rows were scored exactly for query b."""
        return len(self.candidates[b]) + (len(self.survivors[b]) if self.survivors else 0)

    def read(self, b: int) -> int:
        """Return how many bytes of points and codes were read for query b."""
        segment = self.live.segment
        read = 4 * segment.record.dimension * self.scored(b)
        if self.bounded is not None:
            return read + int(self.bounded.read[b])
        if segment.prefilter is not None and len(self.candidates[b]) < self.live.live:
            return read + segment.prefilter.bytes_per_query
        return read

    def proves(self, b: int, limit: float) -> bool:
        """Tell whether no row that was not scored can be among the k best of query b."""
        if self.survivors is not None or len(self.candidates[b]) == self.live.live:
            return True
        if not self.others or self.bounded is None:
            return False
        return self.others[b] > self.bounded.largest(limit)

    def _hits(self, rows: list[Ids], limits: NDArray[np.float64]) -> list[Hits]:
        k, segment = self.query.k, self.live.segment
        return _score(segment, rows, self.queries, k, limits, self.workers)


def _proposed(query: Query, rows: int) -> int:
    """Return how many of a segment's rows are chosen as candidates."""
    count = max(_CANDIDATES[query.mode], _CANDIDATES_PER_HIT * query.k)
    if query.mode == "fast":
        count = max(count, round(_FAST_PER_ROOT * rows**0.5))
    return query.candidates or count


def is_bounded(live: LiveSegment, query: Query, batch: int) -> bool:
    """Tell whether a batch of queries chooses rows of a segment instead of scoring all of them."""
    segment = live.segment
    proved = query.mode == "certified"
    able = segment.bounds is not None or (not proved and segment.prefilter is not None)
    if query.mode == "exact" or not able:
        return False
    count = min(_proposed(query, segment.rows), segment.rows)
    size = (segment.rows, segment.record.dimension)
    return not is_scanned(segment.form, *size, count, batch, proved=proved)


@kernel
def without(rows: Ids, known: Ids) -> Ids:
    """Return the rows that are not known; both are ascending and hold nothing twice."""
    kept = np.empty(rows.shape[0], np.int64)
    count = at = 0
    for row in rows:
        while at < known.shape[0] and known[at] < row:
            at += 1
        kept[count] = row
        count += at == known.shape[0] or known[at] != row
    return kept[:count]


def _scan(
    live: LiveSegment,
    queries: Points,
    k: int,
    limits: NDArray[np.float64],
    workers: Workers,
) -> list[Hits]:
    segment = live.segment
    with segment.in_order():
        return scan(
            segment.points,
            segment.ids,
            live.dead,
            queries,
            form=segment.form,
            k=k,
            limits=limits,
            workers=workers,
        )


def _score(
    segment: Segment,
    chosen: list[Ids],
    queries: Points,
    k: int,
    limits: NDArray[np.float64],
    workers: Workers,
) -> list[Hits]:
    """Score chosen rows exactly; return the k best of each query."""
    return [
        best(
            segment.ids[rows],
            score_rows(segment.points, rows, point, segment.form, workers),
            k,
            limit,
        )
        for rows, point, limit in zip(chosen, queries, limits.tolist(), strict=True)
    ]
