"""The best rows of one query so far, and the merge that joins segments, threads and machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from index.terms import Ids, Points


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Ids and their exact violations, sorted by (violation, id)."""

    ids: Ids
    violations: Points

    def __len__(self) -> int:
        return len(self.ids)

    def bound(self, k: int, limit: float) -> float:
        """Return the violation that no row of the top k exceeds, given these and a limit."""
        return min(limit, float(self.violations[k - 1])) if len(self) >= k else limit


NOTHING = Hits(np.empty(0, np.int64), np.empty(0, np.float32))


def best(ids: Ids, violations: Points, k: int, limit: float = np.inf) -> Hits:
    """Sort rows by (violation, id) and keep the first k that do not exceed `limit`."""
    if len(ids) > 4 * k:
        # The k-th smallest, found without sorting, and everything tied with it.
        kth = np.partition(violations, k - 1)[k - 1]
        limit = min(limit, float(kth))
    kept = np.flatnonzero(violations <= limit)
    order = kept[np.lexsort((ids[kept], violations[kept]))][:k]
    return Hits(ids[order], violations[order])


def merge(parts: Iterable[Hits], k: int) -> Hits:
    """Join the hits of disjoint sets of rows into the k best of all of them."""
    found = [part for part in parts if len(part)]
    if len(found) < 2:
        return best(found[0].ids, found[0].violations, k) if found else NOTHING
    return best(
        np.concatenate([part.ids for part in found]),
        np.concatenate([part.violations for part in found]),
        k,
    )
