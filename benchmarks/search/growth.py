"""Real points, grown to any number of rows without changing what makes them hard to search.

The first rows are the real ones, shuffled. Every further row is one of them turned a little way
towards another, then jittered:

    x = | m + (a - m) cos t + (b - m) sin t |  *  exp(0.02 g),   scaled to the length of a

with a and b drawn from the real rows, m their mean, t uniform between 0 and 45 degrees and g
standard normal for each coordinate. Before the absolute value that keeps the mean and the
covariance of the real rows exactly, and with them the weight of each coordinate and how far
points lie apart; plain averages of rows would crowd around the mean. `profile` shows how well it
does: real rows beside as many rows grown from a quarter of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.search.oracle import violations
from hasse.index.types import Kind, Points

BLOCK = 8192
JITTER = 0.02
PROFILED_ROWS, PROFILED_QUERIES = 8000, 50


class Growth:
    """An endless sequence of rows; any part of it is the same in every run and at every size."""

    def __init__(self, real: Points, seed: int = 0) -> None:
        self.real = real[np.random.default_rng(seed).permutation(len(real))]
        self._mean = real.mean(axis=0)
        self._seed = seed

    def blocks(self, rows: int, start: int = 0) -> Iterator[tuple[int, Points]]:
        """Yield the first `rows` rows in blocks, each with its first row's number."""
        for at in range(start - start % BLOCK, rows, BLOCK):
            block = self._block(at)[: rows - at]
            skip = max(0, start - at)
            yield at + skip, block[skip:]

    def _block(self, at: int) -> Points:
        real = self.real[at : at + BLOCK]
        if len(real) == BLOCK:
            return real
        draw = np.random.default_rng([self._seed, at])
        count = BLOCK - len(real)
        a, b = draw.integers(0, len(self.real), (2, count))
        angle = draw.uniform(0, np.pi / 4, (count, 1)).astype(np.float32)
        base = self.real[a]
        grown = self._mean + (base - self._mean) * np.cos(angle)
        grown += (self.real[b] - self._mean) * np.sin(angle)
        np.abs(grown, out=grown)
        grown *= np.exp(JITTER * draw.standard_normal(grown.shape, np.float32))
        grown *= np.linalg.norm(base, axis=1, keepdims=True) / np.maximum(
            np.linalg.norm(grown, axis=1, keepdims=True), 1e-30
        )
        return np.concatenate([real, grown])


@dataclass(frozen=True, slots=True)
class Profile:
    """What decides how hard a set of rows is to search.

    `small`: share of coordinates below a tenth of their root mean square. `heavy`: share of the
    squared length in a row's heaviest eighth of coordinates. The rest are violations with real
    queries, on average: of the best row, the 10th, the 100th, and the median row.
    """

    rows: int
    norm: float
    small: float
    heavy: float
    first: float
    tenth: float
    hundredth: float
    median: float


def profile(points: Points, queries: Points, kind: Kind) -> Profile:
    """Measure points (R, N) against queries (B, N)."""
    every = np.arange(len(points))
    ranked = np.sort([violations(points, every, query, kind) for query in queries], axis=1)
    squares = -np.sort(-np.square(points[:2000].astype(np.float64)), axis=1)
    eighth = max(1, points.shape[1] // 8)
    return Profile(
        len(points),
        float(np.sqrt(squares.sum(axis=1)).mean()),
        float((squares < 0.01 * squares.mean()).mean()),
        float((squares[:, :eighth].sum(axis=1) / squares.sum(axis=1)).mean()),
        float(ranked[:, 0].mean()),
        float(ranked[:, min(10, len(points)) - 1].mean()),
        float(ranked[:, min(100, len(points)) - 1].mean()),
        float(np.median(ranked)),
    )


def profiles(real: Points, queries: Points, kind: Kind) -> dict[str, Profile]:
    """Compare real rows with rows grown from a quarter of them, and with that quarter alone."""
    shuffled = Growth(real).real[:PROFILED_ROWS]
    quarter = shuffled[: max(1, len(shuffled) // 4)]
    grown = np.concatenate([block for _, block in Growth(quarter).blocks(len(shuffled))])
    some = queries[:PROFILED_QUERIES]
    return {
        "real": profile(shuffled, some, kind),
        "a quarter, grown": profile(grown, some, kind),
        "a quarter": profile(quarter, some, kind),
    }
