"""How far a measured mean could be off, by drawing its sample again (Efron, 1979)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.lab.evaluation.significance import SAMPLES

BLOCK = 100  # samples drawn at one time


def interval(values: ArrayLike) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean of (n,) values, n at least 1.

    For the difference of two models, give the differences pair by pair.
    """
    sample = np.asarray(values, dtype=np.float64)
    draw = np.random.default_rng(0)
    means = [
        sample[draw.integers(0, len(sample), (BLOCK, len(sample)))].mean(1)
        for _ in range(SAMPLES // BLOCK)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def half_width(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % bootstrap interval of the mean of (Q,) values."""
    low, high = interval(values)
    return (high - low) / 2
