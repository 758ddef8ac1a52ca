"""Violations of all pairs on a CPU and their gradient, in plain numba, without storing gaps.

Every violation is summed in one order. On one machine its bits depend neither on the other pairs
nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from hasse.models.kernels.compiled import compiled, processor_threads

Floats: TypeAlias = NDArray[np.float32]

_BLOCK = 64  # rows of one set that stay in a core's cache while the other set is read
_GAPS_PER_THREAD = 1 << 22  # about half a millisecond of work, enough for one more thread
# Allows reordered sums, for vector registers; NaN stays NaN.
_FASTMATH = {"reassoc", "contract", "nsz"}


def violations(x: Floats, y: Floats) -> Floats:
    """Return the matrix of E(x[b], y[c]): (B, N), (C, N), contiguous -> (B, C)."""
    out = np.empty((len(x), len(y)), np.float32)
    in_threads(lambda start, end: _violations(x, y, out, start, end), len(y), out.size * x.shape[1])
    return out


def weighted_gaps(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Sum weights[b, c] max(0, y[c] - x[b]) over c: (B, N), (C, N), (B, C) -> (B, N)."""
    out = np.zeros_like(x)
    in_threads(
        lambda start, end: _add_weighted_gaps(x, y, weights, out, start, end),
        len(x),
        x.size * len(y),
    )
    return out


def in_threads(
    work: Callable[[int, int], None], count: int, gaps: int, threads: int | None = None
) -> None:
    """Call `work` with ranges of 0 to `count`, in more threads if there is enough work."""
    if threads is None:
        threads = min(processor_threads(), gaps // _GAPS_PER_THREAD)
    share = -(-count // max(1, threads))
    if share >= count:
        work(0, count)
        return
    starts = range(0, count, share)
    with ThreadPoolExecutor(len(starts)) as pool:
        # `list` raises the error of a thread here.
        list(pool.map(lambda start: work(start, min(start + share, count)), starts))


@numba.njit(inline="always")
def _gap(x: np.float32, y: np.float32) -> np.float32:
    difference = y - x
    return np.float32(0) if difference < 0 else difference  # NaN stays


@compiled(fastmath=_FASTMATH)
def _violations(x: Floats, y: Floats, out: Floats, start: int, end: int) -> None:
    """Write the violations of all x (B, N) and y[start:end] to `out` (B, C)."""
    for first in range(0, len(x), _BLOCK):
        for c in range(start, end):
            for b in range(first, min(first + _BLOCK, len(x))):
                total = np.float32(0)
                for i in range(x.shape[1]):
                    total += _gap(x[b, i], y[c, i]) ** 2
                out[b, c] = total


@compiled(fastmath=_FASTMATH)
def _add_weighted_gaps(
    x: Floats, y: Floats, weights: Floats, out: Floats, start: int, end: int
) -> None:
    """Add weights (B, C) times gaps to the rows [start, end) of `out` (B, N), over all y."""
    for first in range(0, len(y), _BLOCK):
        for b in range(start, end):
            for c in range(first, min(first + _BLOCK, len(y))):
                weight = weights[b, c]
                for i in range(x.shape[1]):
                    out[b, i] += weight * _gap(x[b, i], y[c, i])
