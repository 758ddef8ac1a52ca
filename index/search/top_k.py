"""The k best rows of each query, whichever segment, thread or stage of a search found them."""

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

    The better of two rows is the one with the smaller violation, or else with the smaller id.
    Rows beyond `limit` are no hits.
    """

    def __init__(self, queries: int, k: int, limit: float = np.inf) -> None:
        self.k, self._limit = k, limit
        self._none = np.float32(limit)
        if self._none <= limit < np.inf:
            with np.errstate(over="ignore"):  # above the largest float32 is infinity
                self._none = np.nextafter(self._none, np.float32(np.inf))
        # Heaps, in which an empty place is a hit beyond the limit.
        self._violations = np.full((queries, k), self._none)
        self._ids = np.full((queries, k), np.iinfo(np.int64).max)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Ids, starts: Ids, violations: Points) -> None:
        """Add rows that were not added before, and their violations.

        Those of query b are ids[starts[b] : starts[b + 1]]. A row whose violation is NaN is
        ignored.
        """
        _add(ids, starts, violations, self._violations, self._ids)

    def limits(self) -> NDArray[np.float64]:
        """Return, for each query (B,), the violation that none of its top k exceeds."""
        return np.minimum(self._violations[:, 0], self._limit, dtype=np.float64)

    def heaps(self, k: int) -> tuple[Points, Ids]:
        """Return heaps (B, k) of violations and ids, for rows better than the worst hits here."""
        worst = (self._violations[:, :1], self._ids[:, :1])
        return np.repeat(worst[0], k, axis=1), np.repeat(worst[1], k, axis=1)

    def hits(self) -> list[Hits]:
        """Return the hits of each query."""
        ids, violations = self._ids.copy(), self._violations.copy()
        _sort(violations, ids)
        counts = np.count_nonzero(violations < self._none, axis=1).tolist()
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
