"""A query and its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.index.catalog.selection import Selection
from hasse.index.catalog.validation import MAX_LENGTH, too_long
from hasse.index.errors import BadQueryError
from hasse.index.types import KINDS, MODES, Ids, Kind, Mode, ModelIdentity, Points, Relation

MAX_K = 100_000  # bounds the memory of a search
# A proof needs a k-th violation within one per cent of the true one. `fast` scores candidates only:
# it needs more of them in larger segments, and for more than ten hits.
_CANDIDATES: dict[Mode, int] = {"certified": 128, "fast": 600}
_CANDIDATES_PER_HIT = 4
_FAST_PER_ROOT = 2  # candidates, times the square root of the number of rows
_FAST_PER_FURTHER_HIT: dict[Kind, int] = {"image": 6, "caption": 12}


class Seconds(NamedTuple):
    """Seconds for choosing candidates, and for exact scores and bounds."""

    prefilter: float
    rerank: float


class RowCounts(NamedTuple):
    """Rows that each stage of a search read, and bytes.

    Attributes:
        scanned: rows that were scored in a scan of a whole segment.
        proposed: candidates of the prefilter or of the heaviest coordinates, which were scored.
        bounded: rows with a lower bound from half a byte of some coordinates.
        checked: of these, rows that were not ruled out, and got a bound from all bytes.
        survivors: of these, rows that were not ruled out, and were scored.
        bytes: bytes of points and codes, and the average for the prefilter's lists.
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

    Attributes:
        certified: whether these are provably the exact top k.
        searched: number of live rows.
        rescored: rows whose exact violation was computed.
        plan: how the segments were searched.
        parts: (k, P) each hit's violation with each part, for a joint search.
        same: other captions with the text of a hit, or other versions of its picture, by its id,
            where these are one hit.
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
    """Parameters of a search, without its points.

    Attributes:
        kind, k: kind and number of the hits.
        candidates: number of candidates in each segment; None leaves it to the index.
        max_violation: the largest violation of a hit.
        selection: filters; None searches all rows.
        distinct_pictures: whether versions of one picture are one hit; see `index.search.versions`.
        relation: how rows compare with query points of the same kind; None if the kinds differ.

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
        """Whether the catalog may exclude rows."""
        return self.selection is not None or self.distinct_pictures

    @property
    def limit(self) -> float:
        """The largest violation that is a hit."""
        return np.inf if self.max_violation is None else self.max_violation


def candidate_count(query: Query, rows: int) -> int:
    """Return the number of candidates in a segment with so many rows."""
    if query.candidates is not None:
        return query.candidates
    count = _CANDIDATES[query.mode]
    if query.mode == "fast":
        further = _FAST_PER_FURTHER_HIT[query.kind] * max(0, query.k - 10)
        return max(count, round(_FAST_PER_ROOT * math.sqrt(rows))) + further
    return max(count, _CANDIDATES_PER_HIT * query.k)


def checked_queries(points: ArrayLike, model: ModelIdentity) -> Points:
    """Return query points as read-only float32 (B, N) after checking them.

    Raises:
        BadQueryError: the dimension is wrong, a coordinate is negative or not finite, or a point is
            too long.
    """
    array = np.asarray(points)
    if array.ndim != 2 or array.shape[1] != model.dimension:
        raise BadQueryError(
            f"the query has the shape {array.shape[1:]} and the index holds points of "
            f"{model.dimension} coordinates: encode it with the model '{model.name}'"
        )
    queries = array if array.dtype == np.float32 else _to_float32(array)
    least, most = queries.min(initial=0), queries.max(initial=0)
    # Every comparison with NaN is false.
    if not (most < np.inf and (least >= 0 or (model.score == "cosine" and least > -np.inf))):
        raise BadQueryError(
            "the query has a coordinate that is negative or not finite: encode it again"
        )
    longest = float(max(most, -least)) * queries.shape[1] ** 0.5
    if longest > MAX_LENGTH and (longest_query := too_long(queries)) is not None:
        raise BadQueryError(
            f"the query has the length {longest_query[1]:.3g}, and points are no longer than "
            f"{MAX_LENGTH:.0e}: encode it again"
        )
    queries = queries.view()
    queries.flags.writeable = False
    return queries


def _to_float32(array: NDArray[Any]) -> Points:
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
