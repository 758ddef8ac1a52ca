"""The best rows of one query so far, and the merge that joins segments, threads and machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from index.kernels import kernel, offer, sort
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
    return Hits(*_best(ids, violations, k, limit))


def merge(parts: Iterable[Hits], k: int) -> Hits:
    """Join the hits of disjoint sets of rows into the k best of all of them."""
    found = [part for part in parts if len(part)]
    if len(found) == 1 and len(found[0]) <= k:
        return found[0]
    if not found:
        return NOTHING
    return best(
        np.concatenate([part.ids for part in found]),
        np.concatenate([part.violations for part in found]),
        k,
    )


@kernel
def _best(ids: Ids, violations: Points, k: int, limit: float) -> tuple[Ids, Points]:
    # One call: a scan drives numpy's code out of the caches, and each call of it is slow then.
    room = min(k, ids.shape[0])
    found, theirs = np.empty(room, np.int64), np.empty(room, np.float32)
    count = 0
    for at in range(ids.shape[0]):
        if violations[at] <= limit:
            count = offer(theirs, found, count, violations[at], ids[at])
    sort(theirs, found, count)
    return found[:count], theirs[:count]
