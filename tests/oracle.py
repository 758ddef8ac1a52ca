"""The plainest way to compute what the fast code computes: numpy, float64, the whole cube."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def violation(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """E(x, y) over the last dimension, with broadcasting."""
    gap = np.asarray(y, dtype=np.float64) - np.asarray(x, dtype=np.float64)
    return np.asarray(np.square(np.maximum(gap, 0)).sum(-1))


def pairwise_violation(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """E(x[b], y[c]): (B, N), (C, N) -> (B, C)."""
    return violation(np.asarray(x)[:, None], np.asarray(y)[None, :])


def best(violations: ArrayLike, ids: ArrayLike, k: int, limit: float = np.inf) -> NDArray[np.int64]:
    """The ids of the k smallest violations (C,) within `limit`, ties by id."""
    values, numbers = np.asarray(violations), np.asarray(ids)
    order = np.lexsort((numbers, values))
    return numbers[order[values[order] <= limit]][:k]
