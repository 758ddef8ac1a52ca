"""Rows of a segment that are likely hits of the queries of a batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import brief
from hasse.index.types import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows of a segment for each of B queries, in one array.

    Attributes:
        rows: (n,) those of query b are rows[starts[b] : starts[b + 1]], in ascending order.
        starts: (B + 1,) where the rows of each query begin, and n.
    """

    rows: Ids
    starts: Ids

    @classmethod
    def of(cls, each: Sequence[Ids]) -> Candidates:
        """Join the rows of each query."""
        return cls(np.concatenate(each).astype(np.int64, copy=False), starts_of(map(len, each)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[Ids]:
        return (self[b] for b in range(len(self)))

    def __getitem__(self, b: int) -> Ids:
        return self.rows[self.starts[b] : self.starts[b + 1]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows each query (B,) has."""
        return self.starts[1:] - self.starts[:-1]

    def without(self, known: Candidates) -> Candidates:
        """Return the rows that are not among those known, query by query."""
        return Candidates(*_without(self.rows, self.starts, known.rows, known.starts))


def starts_of(counts: Iterable[int]) -> Ids:
    """Return where parts of these lengths begin in a joined array, and its length."""
    return np.fromiter(itertools.accumulate(counts, initial=0), np.int64)


@brief
def _without(rows: Ids, starts: Ids, known: Ids, known_starts: Ids) -> tuple[Ids, Ids]:
    others, other_starts = np.empty(rows.shape[0], np.int64), np.zeros(starts.shape[0], np.int64)
    count = 0
    for b in range(starts.shape[0] - 1):
        at, end = known_starts[b], known_starts[b + 1]
        for place in range(starts[b], starts[b + 1]):
            row = rows[place]
            while at < end and known[at] < row:
                at += 1
            others[count] = row
            count += at == end or known[at] != row
        other_starts[b + 1] = count
    return others[:count], other_starts
