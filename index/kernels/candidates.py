"""Candidates: rows of a segment that are likely hits, for each query of a batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.types import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows of a segment for each of B queries, in one array.

    Attributes:
        rows: (n,); the rows of query b are rows[starts[b] : starts[b + 1]], in ascending order.
        starts: (B + 1,); the start of each query's rows, and n.
    """

    rows: Ids
    starts: Ids

    @classmethod
    def of(cls, rows: Sequence[Ids]) -> Candidates:
        """Join the rows of each query."""
        return cls(np.concatenate(rows).astype(np.int64, copy=False), starts_of(map(len, rows)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[Ids]:
        return (self[b] for b in range(len(self)))

    def __getitem__(self, b: int) -> Ids:
        return self.rows[self.starts[b] : self.starts[b + 1]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each query (B,)."""
        return self.starts[1:] - self.starts[:-1]

    def without(self, known: Candidates) -> Candidates:
        """Return the rows that are not in `known`, query by query."""
        pairs = zip(self, known, strict=True)
        return Candidates.of([np.setdiff1d(*pair, assume_unique=True) for pair in pairs])


def starts_of(counts: Iterable[int]) -> Ids:
    """Return the starts of parts with these lengths in a joined array, and its length."""
    return np.fromiter(itertools.accumulate(counts, initial=0), np.int64)
