"""What is measured: anything that answers queries with ids, and first of all Hasse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.index.types import Ids, Kind, Mode, Points

ORDER = "the order"


class Contender(Protocol):
    """Anything that returns the ids (B, k) of what it takes for the best rows.

    Attributes:
        name: of the engine.
        question: what it ranks rows by, and how surely.
        build_seconds: what its index took to build.
    """

    name: str
    question: str
    build_seconds: float

    @property
    def setting(self) -> str:
        """What it was set to."""
        ...

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        ...

    def bytes_per_query(self, queries: Points) -> float:
        """Return how much memory a query reads on average; NaN where it cannot be told."""
        ...


class Hasse:
    """One mode of the index."""

    build_seconds = 0.0
    setting = ""

    def __init__(self, index: Index, kind: Kind, k: int, mode: Mode) -> None:
        self.name = f"hasse {mode}"
        self.question = ORDER if mode == "fast" else f"{ORDER}, exactly"
        self.mode: Mode = mode
        self._index, self._kind, self._k = index, kind, k

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return np.stack([answer.ids for answer in answers])

    def bytes_per_query(self, queries: Points) -> float:
        """Return what the answers say was read of points and codes."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return float(np.mean([answer.work.bytes for answer in answers]))


def recall(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids (B, k) that were found (B, k)."""
    hits = sum(len(np.intersect1d(*pair)) for pair in zip(found, truth, strict=True))
    return float(hits / truth.size)


def least(reaches: Callable[[int], bool], first: int, last: int) -> int | None:
    """Return about the smallest number from `first` to `last` that suffices, or None."""
    low, high = first - 1, min(first, last)
    while not reaches(high):
        if high == last:
            return None
        low, high = high, min(2 * high, last)
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
