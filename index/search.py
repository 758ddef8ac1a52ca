"""Search one generation: candidates, exact violations, proof."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from index.errors import BadQueryError
from index.hits import merge
from index.scan import Workers, scan
from index.segment import Segment
from index.terms import KINDS, MODES, Ids, Kind, Mode, ModelIdentity, Points

MAX_K = 1000


@dataclass(frozen=True, slots=True, eq=False)
class LiveSegment:
    """A segment as one generation sees it. `dead` is (R,), or (0,) when every row lives."""

    segment: Segment
    dead: NDArray[np.bool_]

    @property
    def live(self) -> int:
        """The number of rows that a search sees."""
        return self.segment.rows - int(np.count_nonzero(self.dead))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything one generation consists of; immutable, so that a search needs no lock."""

    generation: int
    model: ModelIdentity
    segments: tuple[LiveSegment, ...]

    def of(self, kind: Kind) -> list[LiveSegment]:
        """Return the segments of one kind."""
        return [live for live in self.segments if live.segment.record.kind == kind]

    def live(self, kind: Kind) -> int:
        """Return the number of rows that a search over `kind` sees."""
        return sum(live.live for live in self.of(kind))


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds spent proposing candidates and scoring exactly (bounds included)."""

    prefilter: float
    rerank: float


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The rows with the smallest violations, sorted by (violation, id).

    `certified`: these are provably the exact top k. `searched`: live rows the answer speaks for.
    `rescored`: rows whose exact violation was computed. `plan`: which way was taken.
    """

    ids: Ids
    violations: Points
    mode: Mode
    certified: bool
    searched: int
    rescored: int
    generation: int
    plan: str
    seconds: Stages


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one search; they travel with the call and are set on nothing shared."""

    kind: Kind
    k: int
    mode: Mode = "certified"
    candidates: int | None = None
    max_violation: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadQueryError(f"cannot search for '{self.kind}': choose one of {KINDS}")
        if self.mode not in MODES:
            raise BadQueryError(f"there is no mode '{self.mode}': choose one of {MODES}")
        if not 1 <= self.k <= MAX_K:
            raise BadQueryError(f"k is {self.k}: choose a number from 1 to {MAX_K}")
        if self.candidates is not None and self.candidates < 1:
            raise BadQueryError(f"candidates is {self.candidates}: choose at least 1, or none")
        if self.max_violation is not None and not self.max_violation >= 0:
            raise BadQueryError(
                f"max_violation is {self.max_violation}: choose a number that is not negative"
            )

    @property
    def limit(self) -> float:
        """The largest violation that is a hit."""
        return np.inf if self.max_violation is None else self.max_violation


def checked_queries(points: ArrayLike, model: ModelIdentity) -> Points:
    """Return query points as float32 (B, N).

    Raises:
        BadQueryError: wrong dimension, or a coordinate that is not finite or negative.
    """
    given = np.asarray(points)
    if given.ndim != 2 or given.shape[1] != model.dimension:
        raise BadQueryError(
            f"the query has the shape {given.shape[1:]} and the index holds points of "
            f"{model.dimension} coordinates: encode it with the model '{model.name}'"
        )
    with np.errstate(over="ignore"):
        queries = np.ascontiguousarray(given, dtype=np.float32)
    lowest = -np.inf if model.score == "cosine" else 0.0
    if queries.size and not (np.isfinite(queries).all() and queries.min() >= lowest):
        raise BadQueryError(
            "the query has a coordinate that is not finite or negative: encode it again"
        )
    return queries


def search(snapshot: Snapshot, queries: Points, query: Query, workers: Workers) -> Sequence[Answer]:
    """Answer each of `queries` (B, N) over one generation."""
    started = time.perf_counter()
    limits = np.full(len(queries), query.limit)
    found = [
        scan(
            live.segment.points,
            live.segment.ids,
            live.dead,
            queries,
            form=live.segment.form,
            k=query.k,
            limits=limits,
            workers=workers,
        )
        for live in snapshot.of(query.kind)
    ]
    searched = snapshot.live(query.kind)
    seconds = (time.perf_counter() - started) / max(1, len(queries))
    answers = []
    for b in range(len(queries)):
        hits = merge((hits[b] for hits in found), query.k)
        answers.append(
            Answer(
                hits.ids,
                hits.violations,
                query.mode,
                True,
                searched,
                searched,
                snapshot.generation,
                "scan",
                Stages(0.0, seconds),
            )
        )
    return answers
