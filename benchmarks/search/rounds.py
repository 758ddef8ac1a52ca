"""Timing on a machine that others use too: contenders take turns, so all meet the same weather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.search.clock import Clock
from benchmarks.search.contenders import Contender
from benchmarks.search.kernels import Reader
from index.types import Ids, Points

BURST = 4  # calls in a row: one after another's turn finds the caches cold
FEWEST_TURNS, MOST_TURNS = 3, 40

Check = Callable[[Contender, slice, Ids], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for each query."""

    median: float
    p95: float
    mean: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Summarise samples."""
        return cls(
            float(np.median(seconds)),
            float(np.percentile(seconds, 95)),
            float(np.mean(seconds)),
            len(seconds),
        )


def take_turns(
    contenders: Sequence[Contender],
    queries: Points,
    batch: int,
    seconds: float,
    reader: Reader,
    clock: Clock,
    check: Check,
) -> tuple[dict[str, Timing], Timing]:
    """Time every contender on batches of queries, about `seconds` each, and reading beside them.

    A slow contender sits out some turns. `check` is shown all answers, outside the clock.
    Returns seconds for each query by contender, and seconds for each reading of the memory.
    """
    starts = range(0, len(queries) - batch + 1, batch)
    spent: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    turns = {c.name: _turns(c, queries[:batch], seconds, clock) for c in contenders}
    total, reads = max(turns.values()), [0.0]
    for turn in range(total):
        for contender in contenders:
            own = turns[contender.name]
            if turn * own // total == (turn - 1) * own // total:
                continue
            for call in range(BURST):
                at = starts[(turn * BURST + call) % len(starts)]
                part = slice(at, at + batch)
                began = clock()
                found = contender.ask(queries[part])
                spent[contender.name].append((clock() - began) / batch)
                check(contender, part, found)
        for _ in range(BURST):
            began = clock()
            reader.read()
            reads.append(clock() - began)
    return {name: Timing.of(s) for name, s in spent.items()}, Timing.of(reads[1:])


def _turns(contender: Contender, queries: Points, seconds: float, clock: Clock) -> int:
    contender.ask(queries)
    began = clock()
    contender.ask(queries)
    turns = int(seconds / (BURST * (clock() - began)))
    return min(max(FEWEST_TURNS, turns), MOST_TURNS)
