"""The search: candidates bound the k-th violation from above, codes bound each row from below.

A row can be among the k best only when its lower bound does not exceed the k-th best exact
violation known so far. Once every row with so small a bound has been scored exactly, the k best of
those are the k best of all, and the answer is proved. Segments too small for codes are scanned.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.bounds.lower_bounds import Bounded
from index.kernels.early_exit import heaviest_lines, scan_lines, slack_of
from index.kernels.threads import Workers
from index.kernels.violations import scan_rows
from index.kernels.violations import score_rows as score_range
from index.search.candidates import Chosen
from index.search.cost_model import is_scanned
from index.search.query import Answer, Query, Seconds, Touched, plan_of
from index.search.top_k import Best
from index.segments.segment import Segment
from index.segments.snapshot import LiveSegment, Snapshot
from index.types import Form, Ids, Kind, Mode, Points

if TYPE_CHECKING:
    from index.kernels.gpu_scan import Accelerator, Resident

# Without a prefilter, candidates are chosen by the coordinates that are expected to add this share
# of the violation.
_SHARE = 0.6
# A proof needs a k-th violation that is good to a per cent; `fast` lives by its candidates alone,
# and needs more of them among more rows, and for more than ten hits.
_CANDIDATES: dict[Mode, int] = {"certified": 128, "fast": 600}
_CANDIDATES_PER_HIT = 4
_FAST_PER_ROOT = 2  # candidates for each of the square root of the rows
_FAST_PER_FURTHER_HIT: dict[Kind, int] = {"image": 6, "caption": 12}
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
    if not len(queries):
        return []
    started = time.perf_counter()
    tasks: list[_Task] = []
    scans: list[LiveSegment] = []
    residents: list[tuple[LiveSegment, Resident]] = []
    segments = snapshot.together or snapshot.segments
    searched = [live for live in segments if live.segment.record.kind == query.kind]
    for live in searched:
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

    best = Best(len(queries), query.k, query.limit)
    for task in tasks:
        task.score_candidates(best)
    for live, resident in residents:
        rows = resident.shortlist(live.excluded, queries, query.k, best.limits())
        _score(live.segment, rows, queries, best, workers)
    for live in scans:
        _scan(live, queries, best, workers)
    if query.mode == "certified":
        for task in tasks:
            task.score_survivors(best)
    limits, found = best.limits(), best.hits()
    ended = time.perf_counter()

    batch = len(queries)
    scanned = sum(live.live for live in scans) + sum(live.live for live, _ in residents)
    ways = [task.way for task in tasks] + ["scan"] * len(scans) + ["device"] * len(residents)
    plan, alive = plan_of(ways), sum(live.live for live in searched)
    bounded = sum(task.live.segment.rows for task in tasks if task.surveyed)
    seconds = Seconds((proposed - started) / batch, (ended - proposed) / batch)
    certified = np.ones(batch, np.bool_)
    for task in tasks:
        certified &= task.proves(limits)
    return [
        Answer(
            ids=hits.ids,
            violations=hits.violations,
            mode=query.mode,
            certified=proved,
            searched=alive,
            rescored=scanned + scored,
            generation=snapshot.generation,
            plan=plan,
            touched=Touched(
                scanned=scanned,
                proposed=candidates,
                bounded=bounded,
                checked=checked,
                left=left,
                bytes=4 * queries.shape[1] * scanned + read,
            ),
            seconds=seconds,
        )
        for hits, proved, (scored, candidates, checked, left, read) in zip(
            found, certified.tolist(), _tallies(tasks, batch), strict=True
        )
    ]


def _tallies(tasks: list[_Task], batch: int) -> list[list[int]]:
    """Return of each query how many rows were scored, proposed, checked, left; and bytes read."""
    tallies = np.zeros((5, batch), np.int64)
    for task in tasks:
        for at, more in enumerate((task.scored, task.proposed, task.checked, task.left, task.read)):
            tallies[at] += more
    each: list[list[int]] = tallies.T.tolist()
    return each


class _Task:
    """The search of one large segment.

    Attributes:
        surveyed: whether the bounds of all rows were looked at.
        proposed, checked, left, survivors: (B,) how many candidates there are, how many rows had
            their bytes read, how many the codes did not rule out, and how many of these were no
            candidates.
    """

    def __init__(self, live: LiveSegment, queries: Points, query: Query, workers: Workers) -> None:
        self.live = live
        self._queries, self._query, self._workers = queries, query, workers
        self._bounded: Bounded | None = None
        none = np.zeros(len(queries), np.int64)
        self._candidates = Chosen(none[:0], np.zeros(len(queries) + 1, np.int64))
        self._others = np.zeros(len(queries))  # a violation that no other row is below
        self.surveyed = False
        self.proposed = self.checked = self.left = self.survivors = none

    @property
    def way(self) -> str:
        """How the rows are searched, in a word."""
        if self._query.mode == "certified":
            return "heaviest+bounds"
        return "prefilter" if self.live.segment.prefilter else "heaviest"

    @property
    def scored(self) -> NDArray[np.int64]:
        """How many rows were scored exactly for each query (B,)."""
        return self.proposed + self.survivors

    @property
    def read(self) -> NDArray[np.int64]:
        """How many bytes of points and codes were read for each query (B,)."""
        segment = self.live.segment
        read = 4 * segment.record.dimension * self.scored
        if self._bounded is not None:
            return read + self._bounded.read
        if segment.prefilter is not None:
            # Where all live rows are candidates, nobody had to choose them.
            return read + segment.prefilter.bytes_per_query * (self.proposed < self.live.live)
        return read

    def propose(self) -> None:
        """Choose candidates for every query: by FAISS, or by the codes' heaviest coordinates."""
        segment, excluded, query = self.live.segment, self.live.excluded, self._query
        count = proposed(query, segment.rows)
        if is_few(self.live, count):
            self._candidates = Chosen.alike(self.live.rows(), len(self._queries))
        elif segment.prefilter is not None and query.mode == "fast":
            self._candidates = segment.prefilter.candidates(self._queries, count, excluded)
        elif segment.bounds is not None:
            self._bounded = segment.bounds.begin(self._queries)
            self._candidates, self._others = segment.bounds.propose(
                self._bounded, count, _SHARE, excluded, self._workers
            )
        self.proposed = self._candidates.counts

    def score_candidates(self, best: Best) -> None:
        """Offer the candidates to the best so far."""
        self._score(self._candidates, best)

    def score_survivors(self, best: Best) -> None:
        """Offer all other rows whose violations may be among the best."""
        bounds = self.live.segment.bounds
        if bounds is None or self._bounded is None:
            return
        possible, self.checked = bounds.survivors(
            self._bounded, self.live.excluded, best.limits(), self._workers
        )
        survivors = possible.without(self._candidates)
        self.surveyed, self.left, self.survivors = True, possible.counts, survivors.counts
        self._score(survivors, best)

    def proves(self, limits: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell for each query (B,) whether no row that was not scored can be among the k best."""
        if self.surveyed:
            return np.ones(len(limits), np.bool_)
        every: NDArray[np.bool_] = self.proposed == self.live.live
        if self._bounded is None:
            return every
        return every | (self._others > self._bounded.largest(limits))

    def _score(self, chosen: Chosen, best: Best) -> None:
        _score(self.live.segment, chosen, self._queries, best, self._workers)


def proposed(query: Query, rows: int) -> int:
    """Return how many of a segment's rows are chosen as candidates."""
    count = _CANDIDATES[query.mode]
    if query.mode == "fast":
        further = _FAST_PER_FURTHER_HIT[query.kind] * max(0, query.k - 10)
        count = max(count, round(_FAST_PER_ROOT * rows**0.5)) + further
    else:
        count = max(count, _CANDIDATES_PER_HIT * query.k)
    return query.candidates or count


def is_few(live: LiveSegment, count: int) -> bool:
    """Tell whether so few rows of a segment live that all may be its `count` candidates."""
    return live.live <= max(count, live.segment.rows // _FEW)


def is_bounded(live: LiveSegment, query: Query, batch: int) -> bool:
    """Tell whether a batch of queries chooses rows of a segment instead of scoring all of them."""
    segment = live.segment
    proved = query.mode == "certified"
    able = segment.bounds is not None or (not proved and segment.prefilter is not None)
    if query.mode == "exact" or not able:
        return False
    count = min(proposed(query, segment.rows), segment.rows)
    size = (segment.rows, segment.record.dimension)
    return not is_scanned(segment.form, *size, count, batch, proved=proved)


def _scan(live: LiveSegment, queries: Points, best: Best, workers: Workers) -> None:
    """Offer every row of a segment to the best so far."""
    segment = live.segment
    with nullcontext() if segment.bounds is None else segment.read_in_order():
        scan(
            segment.points,
            segment.ids,
            live.excluded,
            queries,
            best,
            form=segment.form,
            workers=workers,
        )


def _score(segment: Segment, chosen: Chosen, queries: Points, best: Best, workers: Workers) -> None:
    """Score chosen rows exactly and offer them to the best so far."""
    violations = score_rows(segment.points, chosen, queries, segment.form, workers)
    best.add(segment.ids[chosen.rows], chosen.starts, violations)


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
    limits = best.limits()
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

    def part(edges: tuple[int, int]) -> None:
        asked = (chosen.rows, chosen.starts, queries, int(form))
        score_range(points, *asked, *edges, violations)

    workers.map(part, workers.ranges(len(chosen.rows), 4 * points.shape[1]))
    return violations
