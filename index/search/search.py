"""The search: candidates bound the k-th violation from above, codes bound each row from below.

A row can be among the k best only if its lower bound does not exceed the k-th best exact violation
so far. When every such row has been scored exactly, the k best of the scored rows are the k best of
all rows, and the answer is proved. Small segments are scanned.

A joint search has several parts and ranks a row by its worst part. A row that precedes the join of
some captions precedes each of them. So the join finds images that all captions are true of, and the
meet of images finds captions true of all images. If the order holds only approximately, violations
of parts add up in the join: a row that lacks a little of every part ranks below one that lacks a
whole part. The worst part,

    max over parts p of E(row, p),

is 0 exactly when the violation with the join is 0, and never larger. A row can be a hit only if its
lower bound for *every* part is within the limit.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hasse.index.bounds.lower_bounds import BatchState
from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import scan_rows, score_candidates
from hasse.index.search.query import Answer, Query, RowCounts, Seconds, candidate_count
from hasse.index.search.top_k import TopK
from hasse.index.segments.cost_model import MEASURED, Costs
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids, Orientation, Points

if TYPE_CHECKING:
    from hasse.index.search.gpu_scan import Accelerator

# Without a prefilter, candidates are chosen by the coordinates that are expected to add this share
# of the violation.
_SHARE = 0.6
# If at most one row in _FEW is live (the rest is deleted or not selected), scoring all live rows
# reads fewer bytes than a scan of the codes.
_FEW = 64
# Counts of a search: how many rows were scored exactly, then the fields of `RowCounts`.
_RESCORED, _SCANNED, _PROPOSED, _BOUNDED, _CHECKED, _SURVIVORS, _BYTES = range(7)
_NO_ROWS = Candidates(np.zeros(0, np.int64), np.zeros(1, np.int64))
# Queries in one batch. In a larger batch the sums, two bytes for each row and query, would not fit
# into the caches.
_BATCH = 64
_BLOCK = 4096  # rows that a joint scan scores at once; their hits tighten the limit for the next


class CompiledSearch:
    """Searches with compiled kernels on threads, and on a GPU if there is one."""

    def __init__(self, workers: Workers, costs: Costs, accelerator: Accelerator | None) -> None:
        self._workers, self._costs, self._accelerator = workers, costs, accelerator

    def answers(self, snapshot: Snapshot, queries: Points, query: Query) -> list[Answer]:
        """Answer each of `queries` (B, N)."""
        if query.relation is not None:
            from hasse.index.search.similar import search_similar

            return list(search_similar(snapshot, queries, query, query.relation, self._workers))
        return search(snapshot, queries, query, self._workers, self._accelerator, self._costs)

    def joint_answer(self, snapshot: Snapshot, parts: Points, query: Query) -> Answer:
        """Return the rows whose worst violation over `parts` (P, N) is smallest."""
        return search_jointly(snapshot, parts, query, self._workers, self._costs)

    def violations(self, points: Points, query: Points, orientation: Orientation) -> Points:
        """Return the violations (r,) of points (r, N) with a query (N,)."""
        all_rows = Candidates(np.arange(len(points)), np.array([0, len(points)]))
        return score_rows(points, all_rows, query[None], orientation, self._workers)


def search(
    snapshot: Snapshot,
    queries: Points,
    query: Query,
    workers: Workers,
    accelerator: Accelerator | None = None,
    costs: Costs = MEASURED,
) -> list[Answer]:
    """Answer each of `queries` (B, N) over one generation.

    Segments that the accelerator holds are scanned there: it reads all points faster than a CPU
    reads codes.
    """
    size = len(queries) if accelerator else _BATCH
    batches = np.array_split(queries, -(-len(queries) // size)) if len(queries) else []
    answers: list[Answer] = []
    for batch in batches:
        answers += _answers(snapshot, batch[None], query, workers, accelerator, costs)[0]
    return answers


def search_jointly(
    snapshot: Snapshot,
    parts: Points,
    query: Query,
    workers: Workers,
    costs: Costs = MEASURED,
) -> Answer:
    """Return the rows whose worst violation over `parts` (P, N) is smallest, by part too."""
    (answer,), searches = _answers(snapshot, parts[:, None], query, workers, None, costs)
    if len(parts) == 1:
        return replace(answer, parts=answer.violations[:, None])
    by_part = np.empty((len(answer.ids), len(parts)), np.float32)
    for segment_search in searches:
        segment_search.fill_parts(answer.ids, by_part)
    return replace(answer, parts=by_part)


def _answers(
    snapshot: Snapshot,
    parts: Points,
    query: Query,
    workers: Workers,
    accelerator: Accelerator | None,
    costs: Costs,
) -> tuple[list[Answer], list[_SegmentSearch]]:
    """Answer B queries of P parts each, (P, B, N), where P or B is 1; also return the searches."""
    started, batch = time.perf_counter(), parts.shape[1]
    segments = snapshot.search_segments or snapshot.segments
    searches = [
        _SegmentSearch(live, parts, query, workers, accelerator, costs)
        for live in segments
        if live.segment.record.kind == query.kind
    ]
    # Candidates first: their violations tighten the limits of scans.
    searches.sort(key=lambda each: each.scores_all)
    for each in searches:
        each.propose()
    proposed = time.perf_counter()
    best = TopK(batch, query.k, query.limit)
    for each in searches:
        each.score(best)
    if query.mode == "certified":
        for each in searches:
            each.score_survivors(best)
    limits, best_hits = best.limits(), best.hits()
    ended = time.perf_counter()

    certified = np.ones(batch, np.bool_)
    work = np.zeros((7, batch), np.int64)
    for each in searches:
        certified &= each.proves(limits)
        work += each.work
        for state in each.states:
            work[_BYTES] += state.bytes_read
    methods = [each.method for each in searches]
    plan = ", ".join(f"{methods.count(method)} {method}" for method in sorted(set(methods)))
    searched = sum(each.live.live_rows for each in searches)
    seconds = Seconds((proposed - started) / batch, (ended - proposed) / batch)
    return [
        Answer(
            ids=hits.ids,
            violations=hits.violations,
            mode=query.mode,
            certified=is_certified,
            searched=searched,
            rescored=rescored,
            generation=snapshot.generation,
            plan=plan,
            work=RowCounts(*counts),
            seconds=seconds,
        )
        for hits, is_certified, (rescored, *counts) in zip(
            best_hits, certified.tolist(), work.T.tolist(), strict=True
        )
    ], searches


class _SegmentSearch:
    """The search of one segment for queries of P parts, (P, B, N).

    Attributes:
        live: the segment.
        method: the method of the search, as `Answer.plan` names it.
        scores_all: whether the method scores every live row.
        states: the batches of queries or parts that were compared with the segment's bounds.
        work: (7, B) counts of rows and bytes, without the bytes that `states` count.
    """

    def __init__(
        self,
        live: LiveSegment,
        parts: Points,
        query: Query,
        workers: Workers,
        accelerator: Accelerator | None,
        costs: Costs,
    ) -> None:
        self.live, self._parts, self._query, self._workers = live, parts, query, workers
        self._resident = None
        if accelerator is not None and query.mode != "fast":
            self._resident = accelerator.resident(live.segment)
        if self._resident is not None:
            self.method = "device"
        elif is_scanned(live, query, parts.shape[1], costs):
            self.method = "scan"
        elif query.mode == "certified":
            self.method = "heaviest+bounds"
        else:
            self.method = "prefilter" if live.segment.prefilter else "heaviest"
        self.scores_all = self.method in ("scan", "device")
        self.states: list[BatchState] = []
        self.work = np.zeros((7, parts.shape[1]), np.int64)
        self._candidates = _NO_ROWS
        self._lower_bounds: NDArray[np.float64] | None = None  # on rows that are no candidates
        self._possible_hits: list[Ids] = []  # rows of a joint search

    def propose(self) -> None:
        """Choose candidates: by FAISS, or by the heaviest coordinates of the codes."""
        if self.scores_all:
            return
        segment, excluded = self.live.segment, self.live.excluded
        count = candidate_count(self._query, segment.rows)
        queries = self._parts[0]
        if len(self._parts) > 1:
            queries = _compose(self._parts, segment.orientation)
        if self.method == "prefilter" and segment.prefilter is not None:
            self._candidates = segment.prefilter.candidates(queries, count, excluded)
            self.work[_BYTES] = segment.prefilter.bytes_per_query
        elif segment.bounds is not None:
            state = segment.bounds.begin(queries)
            self._candidates, self._lower_bounds = segment.bounds.propose(
                state, count, _SHARE, excluded, self._workers
            )
            self.states.append(state)
        self.work[_RESCORED] = self.work[_PROPOSED] = self._candidates.counts

    def score(self, best: TopK) -> None:
        """Add the candidates, or all live rows, to the top k."""
        live, segment = self.live, self.live.segment
        if not self.scores_all:
            self._add(self._candidates, best)
            return
        self.work[[_RESCORED, _SCANNED]] = live.live_rows
        if self._resident is not None:
            limits = best.limits()
            self._add(self._resident.shortlist(live.excluded, self._parts[0], best.k, limits), best)
        elif live.live_rows <= segment.record.rows // _FEW:
            self._add(Candidates.of([live.rows()] * len(best)), best)
        else:
            with nullcontext() if segment.bounds is None else segment.read_in_order():
                self._scan(best)

    def _scan(self, best: TopK) -> None:
        live, segment = self.live, self.live.segment
        if len(self._parts) > 1:
            rows = live.rows()
            for at in range(0, len(rows), _BLOCK):
                self._add(Candidates.of([rows[at : at + _BLOCK]]), best)
            return
        points, ids, queries = segment.points, segment.ids, self._parts[0]
        scan(points, ids, live.excluded, queries, best, segment.orientation, self._workers)
        self.work[_BYTES] = queries[0].nbytes * live.live_rows

    def score_survivors(self, best: TopK) -> None:
        """Score and add all other rows that no part's bound rules out."""
        bounds = self.live.segment.bounds
        if self.scores_all or bounds is None:
            return
        states = self.states
        if len(self._parts) > 1:
            # The most demanding part first: rows that it rules out are not compared with the next.
            states = [bounds.begin(part) for part in self._parts]
            states.sort(key=lambda state: -float(state.tables.units[0]))
            self.states += states
        excluded, survivors, before = self.live.excluded, self._candidates, self.live.live_rows
        for at, state in enumerate(states):
            if at:
                ruled_out = np.ones(bounds.rows, np.bool_)
                ruled_out[survivors.rows] = False
                excluded = read_only(ruled_out)
            survivors, checked = bounds.survivors(state, excluded, best.limits(), self._workers)
            self.work[_CHECKED] += checked
            # The next part will hardly rule out a larger share. Stop if its codes have more bytes
            # than the points that it would rule out, as for parts that contradict each other.
            count = len(survivors.rows)
            saved_bytes = (before - count) / before * count * self._parts[0].nbytes
            if at + 1 < len(states) and saved_bytes <= state.bytes_read[0]:
                break
            before = count
        new = survivors.without(self._candidates)
        self.work[_BOUNDED], self.work[_SURVIVORS] = self.live.segment.rows, survivors.counts
        self.work[_RESCORED] += new.counts
        self._add(new, best)

    def proves(self, limits: NDArray[np.float64]) -> NDArray[np.bool_] | bool:
        """Return for each query (B,) whether no unscored row can be among the k best."""
        if self.scores_all or self.work[_BOUNDED].all():
            return True
        all_scored: NDArray[np.bool_] = self.work[_PROPOSED] == self.live.live_rows
        # The bounds are for the composed point, and the worst part's violation may be smaller.
        if self._lower_bounds is None or len(self._parts) > 1:
            return all_scored
        return all_scored | (self._lower_bounds > self.states[0].largest(limits))

    def fill_parts(self, ids: Ids, by_part: Points) -> None:
        """Write the violations (k, P) with each part, for the hits `ids` (k,) in this segment."""
        rows = np.concatenate([_NO_ROWS.rows, *self._possible_hits])
        own_ids = self.live.segment.ids[rows]
        _, places, matches = np.intersect1d(ids, own_ids, assume_unique=True, return_indices=True)
        for at, part in enumerate(self._parts):
            by_part[places, at] = self._score(Candidates.of([rows[matches]]), part)

    def _add(self, candidates: Candidates, best: TopK) -> None:
        if len(self._parts) == 1:
            violations = self._score(candidates, self._parts[0])
        else:  # one query; a row is dropped at the first part that exceeds the limit
            rows, (limit,) = candidates.rows, best.limits()
            violations = np.full(len(rows), -np.inf, np.float32)
            for part in self._parts:
                violations = np.maximum(violations, self._score(Candidates.of([rows]), part))
                fits = violations <= limit
                rows, violations = rows[fits], violations[fits]
            candidates = Candidates.of([rows])
            self._possible_hits.append(rows)
        best.add(self.live.segment.ids[candidates.rows], candidates.starts, violations)

    def _score(self, candidates: Candidates, part: Points) -> Points:
        """Return the violations (n,) of candidates with one part of each query (B, N)."""
        segment = self.live.segment
        self.work[_BYTES] += part[0].nbytes * candidates.counts
        return score_rows(segment.points, candidates, part, segment.orientation, self._workers)


def is_scanned(live: LiveSegment, query: Query, batch: int, costs: Costs = MEASURED) -> bool:
    """Return whether a batch of queries scores all live rows of a segment."""
    segment = live.segment
    proved = query.mode == "certified"
    if query.mode == "exact" or segment.bounds is None:
        return True
    count = candidate_count(query, segment.rows)
    if live.live_rows <= max(count, segment.rows // _FEW):
        return True
    size = (segment.rows, segment.record.dimension)
    return costs.favor_scan(segment.orientation, *size, count, batch, proved=proved)


def _compose(parts: Points, orientation: Orientation) -> Points:
    """Return one point (1, N) that represents all parts (P, 1, N), for choosing candidates."""
    if orientation is Orientation.COSINE:
        return np.asarray(parts.mean(0), np.float32)
    join, meet = parts.max(0), parts.min(0)
    return np.asarray(join if orientation is Orientation.QUERY_GENERAL else meet)


def scan(
    points: Points,
    ids: Ids,
    excluded: NDArray[np.bool_],
    queries: Points,
    best: TopK,
    orientation: Orientation,
    workers: Workers,
) -> None:
    """Score every live row with every query and add it to the top k.

    points (R, N), ids (R,), excluded (R,) or (0,) if all are live, queries (B, N).
    """

    def part(edges: tuple[int, int]) -> tuple[Ids, Points]:
        violations, best_ids = best.heaps(min(best.k, edges[1] - edges[0]))
        scan_rows(points, ids, excluded, queries, int(orientation), *edges, violations, best_ids)
        return best_ids, violations

    ranges = workers.ranges(len(ids), 4 * points.shape[1] * len(queries))
    for best_ids, violations in workers.map(part, ranges):
        starts = np.arange(len(queries) + 1) * best_ids.shape[1]
        best.add(best_ids.reshape(-1), starts, violations.reshape(-1))


def score_rows(
    points: Points,
    candidates: Candidates,
    queries: Points,
    orientation: Orientation,
    workers: Workers,
) -> Points:
    """Return the violations (n,) of the candidates of queries (B, N)."""
    violations = np.empty(len(candidates.rows), np.float32)

    def part(edges: tuple[int, int]) -> None:
        arguments = (candidates.rows, candidates.starts, queries, int(orientation))
        score_candidates(points, *arguments, *edges, violations)

    workers.map(part, workers.ranges(len(candidates.rows), 4 * points.shape[1]))
    return violations
