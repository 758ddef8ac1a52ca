"""A query and its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.index.catalog.selection import Selection
from hasse.index.catalog.validation import LONGEST, too_long
from hasse.index.errors import BadQueryError
from hasse.index.types import KINDS, MODES, Ids, Kind, Mode, ModelIdentity, Points, Relation

MAX_K = 100_000  # bounds the memory of a search
# A proof needs a k-th violation that is good to a per cent; `fast` has only its candidates, and
# needs more of them among more rows, and for more than ten hits.
_CANDIDATES: dict[Mode, int] = {"certified": 128, "fast": 600}
_CANDIDATES_PER_HIT = 4
_FAST_PER_ROOT = 2  # candidates for each of the square root of the rows
_FAST_PER_FURTHER_HIT: dict[Kind, int] = {"image": 6, "caption": 12}


class Seconds(NamedTuple):
    """Seconds spent proposing candidates and scoring exactly (bounds included)."""

    prefilter: float
    rerank: float


class RowCounts(NamedTuple):
    """How many rows each stage of a search read, and how many bytes.

    Attributes:
        scanned: scored in a pass over a whole segment.
        proposed: chosen by the prefilter or by their heaviest coordinates, and scored.
        bounded: bounded from below by half a byte of some coordinates.
        checked: not ruled out by that, and bounded by a byte of every coordinate.
        survivors: not ruled out by that either.
        bytes: read of points and codes, and of the prefilter's lists on average.
    """

    scanned: int
    proposed: int
    bounded: int
    checked: int
    survivors: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The rows with the smallest violations, sorted by (violation, id).

    `certified`: these are provably the exact top k. `searched`: the number of live rows.
    `rescored`: rows whose exact violation was computed. `plan`: how the segments were searched.
    `parts` (k, P): of a joint search, each row's violation with each part.
    `same`: by id, other captions that read the same, where each text is one hit, and other versions
    where each picture is one.
    """

    ids: Ids
    violations: Points
    mode: Mode
    certified: bool
    searched: int
    rescored: int
    generation: int
    plan: str
    work: RowCounts
    seconds: Seconds
    parts: Points | None = None
    same: Mapping[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """One search, without its points.

    Attributes:
        kind, k: the kind of the hits, and how many of them.
        candidates: how many rows of a segment are proposed; None leaves it to the index.
        max_violation: the largest violation of a hit.
        selection: the part of the collection that is searched; None is all of it.
        distinct_pictures: whether versions of one picture are one hit; see `index.search.versions`.
        relation: of rows of the same kind as the query's points; None compares images and captions.

    Raises:
        BadQueryError: a parameter is out of range.
    """

    kind: Kind
    k: int
    mode: Mode = "certified"
    candidates: int | None = None
    max_violation: float | None = None
    selection: Selection | None = None
    distinct_pictures: bool = False
    relation: Relation | None = None

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
    def narrows(self) -> bool:
        """Whether rows may be left out, by what the catalog says."""
        return self.selection is not None or self.distinct_pictures

    @property
    def limit(self) -> float:
        """The largest violation that is a hit."""
        return np.inf if self.max_violation is None else self.max_violation


def candidate_count(query: Query, rows: int) -> int:
    """Return how many of a segment's rows are chosen as candidates."""
    if query.candidates is not None:
        return query.candidates
    count = _CANDIDATES[query.mode]
    if query.mode == "fast":
        further = _FAST_PER_FURTHER_HIT[query.kind] * max(0, query.k - 10)
        return max(count, round(_FAST_PER_ROOT * math.sqrt(rows))) + further
    return max(count, _CANDIDATES_PER_HIT * query.k)


def checked_queries(points: ArrayLike, model: ModelIdentity) -> Points:
    """Return query points as float32 (B, N), for reading only.

    Raises:
        BadQueryError: wrong dimension, a coordinate that is not finite or negative, or too long.
    """
    given = np.asarray(points)
    if given.ndim != 2 or given.shape[1] != model.dimension:
        raise BadQueryError(
            f"the query has the shape {given.shape[1:]} and the index holds points of "
            f"{model.dimension} coordinates: encode it with the model '{model.name}'"
        )
    queries = given if given.dtype == np.float32 else _rounded(given)
    least, most = queries.min(initial=0), queries.max(initial=0)
    # Every comparison with NaN is false.
    if not (most < np.inf and (least >= 0 or (model.score == "cosine" and least > -np.inf))):
        raise BadQueryError(
            "the query has a coordinate that is not finite or negative: encode it again"
        )
    longest = float(max(most, -least)) * queries.shape[1] ** 0.5
    if longest > LONGEST and (longest_query := too_long(queries)) is not None:
        raise BadQueryError(
            f"the query has the length {longest_query[1]:.3g}, and points are no longer than "
            f"{LONGEST:.0e}: encode it again"
        )
    queries = queries.view()
    queries.flags.writeable = False
    return queries


def _rounded(given: NDArray[Any]) -> Points:
    with np.errstate(over="ignore"):
        return given.astype(np.float32)
