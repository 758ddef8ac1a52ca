"""The least effort with which an approximate search reaches a recall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.search.approximate import Graph, Lists, USearch
from benchmarks.search.clock import Clock
from benchmarks.search.contenders import Contender
from index.types import Ids, Points

MOST_EFFORT = 4096
COUNTS = (5, 10, 20, 40, 80, 160)  # candidates for each hit


def recall(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids (B, k) that were found (B, k)."""
    hits = sum(len(np.intersect1d(*pair)) for pair in zip(found, truth, strict=True))
    return float(hits / truth.size)


def tune_graph(contender: Graph | USearch, queries: Points, truth: Ids, wanted: float) -> bool:
    """Set the least effort that reaches the recall; False, and the most effort, if none does."""

    def reaches(effort: int) -> bool:
        contender.set(effort)
        return recall(contender.ask(queries), truth) >= wanted

    effort = least(reaches, truth.shape[1], MOST_EFFORT)
    contender.set(effort or MOST_EFFORT)
    return effort is not None


def tune_lists(contender: Lists, queries: Points, truth: Ids, wanted: float, clock: Clock) -> bool:
    """Set the quickest of several numbers of candidates, each with the least lists it needs."""
    quickest: tuple[float, int, int] | None = None

    def reaches(count: int, effort: int) -> bool:
        contender.set(effort, count)
        return recall(contender.ask(queries), truth) >= wanted

    for count in (of * truth.shape[1] for of in COUNTS):
        effort = least(partial(reaches, count), 1, contender.lists)
        if effort is not None:
            contender.set(effort, count)
            quickest = min(
                quickest or (np.inf, 0, 0), (_seconds(contender, queries, clock), effort, count)
            )
    _, effort, count = quickest or (0.0, contender.lists, COUNTS[-1] * truth.shape[1])
    contender.set(effort, count)
    return quickest is not None


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


def _seconds(contender: Contender, queries: Points, clock: Clock) -> float:
    spent = []
    for query in queries:
        began = clock()
        contender.ask(query[None])
        spent.append(clock() - began)
    return float(np.median(spent))
