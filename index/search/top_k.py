"""The best rows of each query, from whichever segments, threads and stages of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.kernels.violations import brief, offer, sort
from index.types import Ids, Points


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Ids and their exact violations, sorted by (violation, id)."""

    ids: Ids
    violations: Points

    def __len__(self) -> int:
        return len(self.ids)


class Best:
    """The k best of the rows that were offered, for each of B queries.

    The better of two rows is the one with the smaller violation, or else with the smaller id.
    Rows beyond `limit` are no hits.
    """

    def __init__(self, queries: int, k: int, limit: float = np.inf) -> None:
        self.k, self._limit = k, limit
        self._ids = np.empty((queries, k), np.int64)
        self._violations = np.empty((queries, k), np.float32)  # heaps: the worst hit comes first
        self._counts = np.zeros(queries, np.int64)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, ids: Ids, starts: Ids, violations: Points) -> None:
        """Offer rows that were not offered before.

        Those of query b are ids[starts[b] : starts[b + 1]], with their violations. What is not a
        number is no violation, and no row.
        """
        heaps = (self._violations, self._ids, self._counts)
        _offer(ids, starts, violations, self._limit, *heaps)

    def limits(self) -> NDArray[np.float64]:
        """Return, for each query (B,), the violation that none of its top k exceeds."""
        limits = np.empty(len(self), np.float64)
        _limit(self._violations, self._counts, self._limit, limits)
        return limits

    def hits(self) -> list[Hits]:
        """Return the hits of each query."""
        ids, violations = self._ids.copy(), self._violations.copy()
        _sort(violations, ids, self._counts)
        return [Hits(ids[b, :n], violations[b, :n]) for b, n in enumerate(self._counts.tolist())]


@brief
def _offer(
    ids: Ids,
    starts: Ids,
    violations: Points,
    limit: float,
    theirs: Points,
    found: Ids,
    counts: Ids,
) -> None:
    for b in range(found.shape[0]):
        for at in range(starts[b], starts[b + 1]):
            if violations[at] <= limit:
                counts[b] = offer(theirs[b], found[b], counts[b], violations[at], ids[at])


@brief
def _limit(violations: Points, counts: Ids, limit: float, limits: NDArray[np.float64]) -> None:
    for b in range(limits.shape[0]):
        limits[b] = limit
        if counts[b] == violations.shape[1]:
            limits[b] = violations[b, 0]


@brief
def _sort(violations: Points, ids: Ids, counts: Ids) -> None:
    for b in range(ids.shape[0]):
        sort(violations[b], ids[b], counts[b])
