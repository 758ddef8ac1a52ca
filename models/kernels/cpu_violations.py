"""Violations of all pairs on a CPU and their gradient, in numba: no gap of a pair is stored.

Two points of one set meet four of the other: their eight sums stay in registers, and each
coordinate that was read serves several pairs. A set whose size is no multiple is filled up with
its last row, which is written twice. So every violation is summed in the same order: on one
machine its bits do not depend on what is compared beside it, nor on the number of threads.

Imported only where points are on a CPU: a machine that only learns on a GPU needs no numba.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.kernels.compiled import compiled

Floats: TypeAlias = NDArray[np.float32]

TILE = 4  # points, or coordinates, that are worked on together
_BLOCK = 64  # rows of one set that meet all of the other while a core has them in its cache
_GAPS_PER_THREAD = 1 << 22  # some 200 microseconds of work, worth a thread of its own
# Sums may be reordered, as vector registers need; NaN stays NaN.
_FASTMATH = {"reassoc", "contract", "nsz"}


class CpuViolation(torch.autograd.Function):
    """The matrix of E(x[b], y[c]) in float32: (B, N), (C, N) -> (B, C)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        x_rows, y_rows = (points.detach().contiguous().numpy() for points in (x, y))
        ctx.points = x_rows, y_rows
        out = np.empty((len(x_rows), len(y_rows)), np.float32)
        in_threads(
            lambda start, end: _violations(x_rows, y_rows, out, start, end),
            len(y_rows),
            out.size * x.shape[1],
        )
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        # dE/dy = 2 max(0, y - x), dE/dx = -2 max(0, y - x), each weighted by the gradient of
        # its own entry and summed over the other set. The gap of (x, y) is that of (-y, -x).
        x, y = ctx.points
        weights = 2 * grads[0].numpy()
        return _summed(x, y, -weights), _summed(-y, -x, weights.T)


def _summed(x: Floats, y: Floats, weights: Floats) -> Tensor:
    """Sum weights[b, c] max(0, y[c] - x[b]) over c: (B, N), (C, N), (B, C) -> (B, N)."""
    out = np.empty_like(x)
    columns, weights = np.ascontiguousarray(y.T), np.ascontiguousarray(weights)
    in_threads(
        lambda start, end: _weighted_gaps(x, columns, weights, out, start, end),
        x.shape[1],
        x.size * len(y),
    )
    return torch.from_numpy(out)


def in_threads(
    work: Callable[[int, int], None], count: int, gaps: int, threads: int | None = None
) -> None:
    """Call `work` with ranges of 0 to `count`, in as many threads as torch has and are worth it."""
    if threads is None:
        threads = min(torch.get_num_threads(), gaps // _GAPS_PER_THREAD)
    share = -(-count // max(1, threads) // TILE) * TILE
    if share >= count:
        work(0, count)
        return
    starts = range(0, count, share)
    with ThreadPoolExecutor(len(starts)) as pool:
        # `list`, so that what was raised in a thread is raised here.
        list(pool.map(lambda start: work(start, min(start + share, count)), starts))


@numba.njit(inline="always")
def _gap(x: np.float32, y: np.float32) -> np.float32:
    difference = y - x
    return np.float32(0) if difference < 0 else difference  # NaN stays


@compiled(fastmath=_FASTMATH)
def _violations(x: Floats, y: Floats, out: Floats, start: int, end: int) -> None:
    """Write the violations of all x (B, N) and y[start:end] to `out` (B, C)."""
    for first in range(0, len(x), _BLOCK):
        last = min(first + _BLOCK, len(x))
        for c0 in range(start, end, TILE):
            c1, c2, c3 = min(c0 + 1, end - 1), min(c0 + 2, end - 1), min(c0 + 3, end - 1)
            y0, y1, y2, y3 = y[c0], y[c1], y[c2], y[c3]
            for p in range(first, last, 2):
                q = min(p + 1, last - 1)
                xp, xq = x[p], x[q]
                p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = np.float32(0)
                for i in range(x.shape[1]):
                    p0 += _gap(xp[i], y0[i]) ** 2
                    p1 += _gap(xp[i], y1[i]) ** 2
                    p2 += _gap(xp[i], y2[i]) ** 2
                    p3 += _gap(xp[i], y3[i]) ** 2
                    q0 += _gap(xq[i], y0[i]) ** 2
                    q1 += _gap(xq[i], y1[i]) ** 2
                    q2 += _gap(xq[i], y2[i]) ** 2
                    q3 += _gap(xq[i], y3[i]) ** 2
                out[p, c0], out[p, c1], out[p, c2], out[p, c3] = p0, p1, p2, p3
                out[q, c0], out[q, c1], out[q, c2], out[q, c3] = q0, q1, q2, q3


@compiled(fastmath=_FASTMATH)
def _weighted_gaps(
    x: Floats, columns: Floats, weights: Floats, out: Floats, start: int, end: int
) -> None:
    """Sum weights (B, C) times gaps over y, in the coordinates of a range, to `out` (B, N).

    `columns` (N, C) holds the coordinates of y apart, so that the sum runs through memory.
    """
    for first in range(start, end, 4 * TILE):
        last = min(first + 4 * TILE, end)
        for p in range(0, len(x), 2):
            q = min(p + 1, len(x) - 1)
            wp, wq = weights[p], weights[q]
            for i0 in range(first, last, TILE):
                i1, i2, i3 = min(i0 + 1, last - 1), min(i0 + 2, last - 1), min(i0 + 3, last - 1)
                y0, y1, y2, y3 = columns[i0], columns[i1], columns[i2], columns[i3]
                xp0, xp1, xp2, xp3 = x[p, i0], x[p, i1], x[p, i2], x[p, i3]
                xq0, xq1, xq2, xq3 = x[q, i0], x[q, i1], x[q, i2], x[q, i3]
                p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = np.float32(0)
                for c in range(columns.shape[1]):
                    p0 += wp[c] * _gap(xp0, y0[c])
                    p1 += wp[c] * _gap(xp1, y1[c])
                    p2 += wp[c] * _gap(xp2, y2[c])
                    p3 += wp[c] * _gap(xp3, y3[c])
                    q0 += wq[c] * _gap(xq0, y0[c])
                    q1 += wq[c] * _gap(xq1, y1[c])
                    q2 += wq[c] * _gap(xq2, y2[c])
                    q3 += wq[c] * _gap(xq3, y3[c])
                out[p, i0], out[p, i1], out[p, i2], out[p, i3] = p0, p1, p2, p3
                out[q, i0], out[q, i1], out[q, i2], out[q, i3] = q0, q1, q2, q3
