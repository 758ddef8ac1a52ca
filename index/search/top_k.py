"""The k best rows of each query, from all segments, threads and stages of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import brief
from hasse.index.kernels.heap import push, sort
from hasse.index.types import Ids, Points


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Ids and their exact violations, sorted by (violation, id)."""

    ids: Ids
    violations: Points

    def __len__(self) -> int:
        return len(self.ids)


class TopK:
    """The k best of the rows that were added, for each of B queries.

    The better of two rows has the smaller violation, or with equal violations the smaller id. Rows
    with a violation above `limit` are no hits.
    """

    def __init__(self, queries: int, k: int, limit: float = np.inf) -> None:
        self.k, self._limit = k, limit
        self._empty = np.float32(limit)
        if self._empty <= limit < np.inf:
            with np.errstate(over="ignore"):  # the successor of the largest float32 is infinity
                self._empty = np.nextafter(self._empty, np.float32(np.inf))
        # Heaps; an empty place has the smallest violation above the limit.
        self._violations = np.full((queries, k), self._empty)
        self._ids = np.full((queries, k), np.iinfo(np.int64).max)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Ids, starts: Ids, violations: Points) -> None:
        """Add rows and their violations; never add a row twice.

        The rows of query b are ids[starts[b] : starts[b + 1]]. A row whose violation is NaN is
        ignored.
        """
        _add(ids, starts, violations, self._violations, self._ids)

    def limits(self) -> NDArray[np.float64]:
        """Return, for each query (B,), the largest violation that can still be a hit."""
        return np.minimum(self._violations[:, 0], self._limit, dtype=np.float64)

    def heaps(self, k: int) -> tuple[Points, Ids]:
        """Return new heaps (B, k) of violations and ids that accept only rows that can be hits."""
        worst = (self._violations[:, :1], self._ids[:, :1])
        return np.repeat(worst[0], k, axis=1), np.repeat(worst[1], k, axis=1)

    def hits(self) -> list[Hits]:
        """Return the hits of each query."""
        ids, violations = self._ids.copy(), self._violations.copy()
        _sort(violations, ids)
        counts = np.count_nonzero(violations < self._empty, axis=1).tolist()
        return [Hits(ids[b, :n], violations[b, :n]) for b, n in enumerate(counts)]


@brief
def _add(ids: Ids, starts: Ids, violations: Points, heaps: Points, best_ids: Ids) -> None:
    for b in range(best_ids.shape[0]):
        for at in range(starts[b], starts[b + 1]):
            if violations[at] <= heaps[b, 0]:
                push(heaps[b], best_ids[b], violations[at], ids[at])


@brief
def _sort(violations: Points, ids: Ids) -> None:
    for b in range(ids.shape[0]):
        sort(violations[b], ids[b])
