"""Rows that fit several queries at once, ranked by the one they fit worst.

A row that precedes the join of some captions precedes each of them, so their join asks for
pictures of which all are true (and the meet of pictures, for captions true of all). Where the
order holds only nearly, violations of parts add up in the join, and a row that misses a little of
every part loses to one that lacks a whole one. The worst part,

    max over parts p of E(row, p),

is 0 exactly when the violation with the join is, and never above it. It is proved as a single
violation is: a row can be a hit only when its lower bound for *every* part is within the limit.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.kernels.threads import Workers
from index.search.candidates import Chosen
from index.search.query import Answer, Query, Seconds, Touched, plan_of
from index.search.search import is_few, proposed, score_rows
from index.search.top_k import Best
from index.segments.arrays import read_only
from index.segments.snapshot import LiveSegment, Snapshot
from index.types import Form, Ids, Points

# Candidates are chosen by the coordinates that are expected to add this share of the violation.
_HEAVY = 0.45
_BLOCK = 4096  # rows that meet all parts before others do; their hits bound those of the others


@dataclass(frozen=True, slots=True, eq=False)
class JointAnswer(Answer):
    """An answer whose `violations` are the largest of each row of `parts` (k, P)."""

    parts: Points


def search_jointly(
    snapshot: Snapshot, parts: Points, query: Query, workers: Workers
) -> JointAnswer:
    """Return the rows whose worst violation over `parts` (P, N) is smallest."""
    started = time.perf_counter()
    tasks = [_Task(live, parts, query, workers) for live in snapshot.of(query.kind)]
    for task in tasks:
        task.propose()
    proposed = time.perf_counter()
    best = Best(1, query.k, query.limit)
    for task in tasks:
        task.score_candidates(best)
    if query.mode == "certified":
        for task in tasks:
            task.score_survivors(best)
    (found,) = best.hits()
    return JointAnswer(
        ids=found.ids,
        parts=_each(tasks, found.ids, len(parts)),
        violations=found.violations,
        mode=query.mode,
        certified=all(task.proved for task in tasks),
        searched=snapshot.live(query.kind),
        rescored=sum(task.scored for task in tasks),
        generation=snapshot.generation,
        plan=plan_of([task.way for task in tasks]),
        touched=Touched(
            scanned=sum(task.scored for task in tasks if task.way == "scan"),
            proposed=sum(task.proposed for task in tasks if task.way != "scan"),
            bounded=sum(task.bounded for task in tasks),
            checked=sum(task.checked for task in tasks),
            left=sum(task.left for task in tasks),
            bytes=sum(task.read for task in tasks),
        ),
        seconds=Seconds(proposed - started, time.perf_counter() - proposed),
    )


class _Task:
    """The search of one segment."""

    def __init__(self, live: LiveSegment, parts: Points, query: Query, workers: Workers) -> None:
        self._live, self._parts, self._query, self._workers = live, parts, query, workers
        segment = live.segment
        bounded = segment.bounds is not None
        by_prefilter = query.mode == "fast" and segment.prefilter is not None
        chooses = query.mode != "exact" and (bounded or by_prefilter)
        self._count = proposed(query, segment.rows) if chooses else 0
        self._whole = not chooses or is_few(live, self._count)
        self._rows: Ids = np.empty(0, np.int64)
        self._fitting = self._rows  # those offered that no part ruled out
        self.scored = self.proposed = self.bounded = self.checked = self.left = self.read = 0
        self.proved = False

    @property
    def way(self) -> str:
        """How the rows are searched, in a word."""
        if self._whole:
            return "scan"
        if self._query.mode == "certified":
            return "heaviest+bounds"
        return "prefilter" if self._live.segment.prefilter else "heaviest"

    def propose(self) -> None:
        """Choose candidates: the rows that look best to all parts in one."""
        segment, excluded = self._live.segment, self._live.excluded
        if self._whole:
            self._rows = self._live.rows()
        else:
            whole = _composed(self._parts, segment.form)[None]
            if segment.prefilter is not None and self._query.mode == "fast":
                (self._rows,) = segment.prefilter.candidates(whole, self._count, excluded)
                self.read += segment.prefilter.bytes_per_query
            elif segment.bounds is not None:
                bounded = segment.bounds.begin(whole)
                (self._rows,), _ = segment.bounds.propose(
                    bounded, self._count, _HEAVY, excluded, self._workers
                )
                self.read += int(bounded.read[0])
        self.proposed = len(self._rows)
        self.proved = len(self._rows) == self._live.live

    def score_candidates(self, best: Best) -> None:
        """Offer the candidates to the best so far."""
        every = self._query.mode == "exact"
        with self._live.segment.read_in_order() if every else nullcontext():
            self._offer(self._rows, best)

    def score_survivors(self, best: Best) -> None:
        """Offer all other rows that no part's bound rules out."""
        bounds = self._live.segment.bounds
        if self.proved or bounds is None:
            return
        rows, hidden = self._rows, self._live.excluded
        each = [bounds.begin(part[None]) for part in self._parts]
        before = self._live.live
        # One by one, the most demanding first: what the bounds of one rule out no other checks.
        for bounded in sorted(each, key=lambda one: -float(one.tables.units[0])):
            possible, checked = bounds.survivors(bounded, hidden, best.limits(), self._workers)
            read = int(bounded.read[0])
            self.checked += int(checked[0])
            self.read += read
            rows = possible.rows
            # The next part hardly rules out a larger share of these. Where it would read more than
            # the points that are spared so, as with parts that contradict each other, they are
            # scored now.
            spared = (before - len(rows)) / before * len(rows) * self._parts[0].nbytes
            if spared <= read:
                break
            before = len(rows)
            ruled_out = np.ones(bounds.rows, np.bool_)
            ruled_out[rows] = False
            hidden = read_only(ruled_out)
        self.bounded, self.left = self._live.segment.rows, len(rows)
        self.proved = True
        self._offer(np.setdiff1d(rows, self._rows, assume_unique=True), best)

    def _offer(self, rows: Ids, best: Best) -> None:
        """Offer rows (n,) to the best so far; one is left at the first part it fits too badly."""
        self.scored += len(rows)
        for at in range(0, len(rows), _BLOCK):
            left = rows[at : at + _BLOCK]
            worst = np.full(len(left), -np.inf, np.float32)
            (limit,) = best.limits()
            for part in self._parts:
                self.read += part.nbytes * len(left)
                worst = np.maximum(worst, self._score(left, part))
                fit = worst <= limit
                left, worst = left[fit], worst[fit]
            best.add(self._live.segment.ids[left], np.array([0, len(left)]), worst)
            self._fitting = np.append(self._fitting, left)

    def _score(self, rows: Ids, part: Points) -> Points:
        """Return the violations (n,) of rows with a part (N,)."""
        segment, chosen = self._live.segment, Chosen.of([rows])
        return score_rows(segment.points, chosen, part[None], segment.form, self._workers)

    def each(self, ids: Ids) -> tuple[NDArray[np.intp], Points]:
        """Return the places of those of `ids` (k,) that live here (n,), and their scores (n, P)."""
        theirs = self._live.segment.ids[self._fitting]
        _, places, found = np.intersect1d(ids, theirs, assume_unique=True, return_indices=True)
        scores = [self._score(self._fitting[found], part) for part in self._parts]
        return places, np.stack(scores, axis=1)


def _each(tasks: list[_Task], ids: Ids, count: int) -> Points:
    parts = np.empty((len(ids), count), np.float32)
    for task in tasks:
        places, scores = task.each(ids)
        parts[places] = scores
    return parts


def _composed(parts: Points, form: Form) -> Points:
    """Return one point (N,) that stands for all parts, to propose candidates by."""
    if form is Form.QUERY_ABOVE:
        composed = parts.max(0)
    elif form is Form.STORED_ABOVE:
        composed = parts.min(0)
    else:
        composed = parts.mean(0)
    return np.ascontiguousarray(composed, dtype=np.float32)
