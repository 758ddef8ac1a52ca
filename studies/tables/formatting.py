"""Numbers as the tables of these benchmarks print them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hasse.models.evaluation.bootstrap import interval


def megabytes(size: int) -> str:
    """Return a number of bytes."""
    return f"{size / 1e6:,.0f} MB"


def milliseconds(seconds: float) -> str:
    """Return a short time."""
    return f"{seconds * 1e3:,.2f} ms"


def half_width(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % bootstrap interval of the mean of (Q,) values."""
    low, high = interval(values)
    return (high - low) / 2
