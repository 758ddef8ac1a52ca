"""Violations in numpy, for a process that computes few: compiled kernels take a second to load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 128  # rows that stay in a core's cache while they are scored


def violations(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the matrix of E(x[b], y[c]), as `cpu_violations` does to rounding: -> (B, C)."""
    out = np.empty((len(x), len(y)), np.float32)
    for at in range(0, len(y), _BLOCK):
        for b, point in enumerate(x):
            gaps = np.maximum(y[at : at + _BLOCK] - point, 0)
            out[b, at : at + _BLOCK] = np.einsum("cn,cn->c", gaps, gaps)
    return out
