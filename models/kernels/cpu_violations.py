"""Violations of all pairs on a CPU, and their gradient, tile by tile: no gap of a pair is stored.

A few rows of either set meet in registers: of their coordinates, 16 at a time, each gap is a
difference and a maximum, and adds to a sum that stays in its register. So a number that was read
serves several pairs, and what a pair costs is its arithmetic.

A violation is the sum of 16 lanes (coordinate i goes to lane i mod 16), added up by a fixed tree:
the same bits, whichever points are compared beside it and on however many threads. Likewise a
gradient, whose sums run over the other set one point after the other.

The kernels are numba's, so this module is imported where points are on a CPU only.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types as _types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from models.kernels import llvm
from models.kernels.llvm import cgutils, const

types: Any = _types
Floats: TypeAlias = NDArray[np.float32]

LANES = 16
TILE = 4 if llvm.WIDE else 2  # rows of either set that meet: their sums fit into the registers
_TOGETHER = 64  # rows of one set that meet all of the other while a core has them in its cache
_PER_THREAD = 1 << 22  # gaps that are worth a thread of their own: some 200 microseconds of work
_VECTOR = ir.VectorType(llvm.FLOAT, LANES)
_ZERO = llvm.filled(_VECTOR, 0.0)


class TiledViolation(torch.autograd.Function):
    """The matrix of E(x[b], y[c]) in float32: (B, N), (C, N) -> (B, C)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        rows, columns = _laid_out(x), _laid_out(y)
        ctx.points = rows, columns
        ctx.shapes = x.shape, y.shape
        return _compared(rows, columns, x.shape[0], y.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        # dE/dy = 2 max(0, y - x), dE/dx = -2 max(0, y - x), each weighted by the gradient of
        # its own entry and summed over the other set.
        (grad,) = grads
        (x, y), (x_shape, y_shape) = ctx.points, ctx.shapes
        weights = np.zeros((len(x), len(y)), np.float32)
        weights[: x_shape[0], : y_shape[0]] = 2 * grad
        x_sums, y_sums = np.zeros_like(x), np.zeros_like(y)
        # Coordinates are shared out: of each, one thread adds up both sums alone.
        _shared(
            lambda start, end: _add_up(x, y, weights, x_sums, y_sums, start, end),
            x.shape[1] - LANES,
            LANES,
            weights.size * x.shape[1],
        )
        return _taken(x_sums, x_shape), _taken(y_sums, y_shape)


class Laid:
    """Points (B, N) that are laid out once, to be compared many times.

    Nothing is learned from them, nor from what they are compared with.
    """

    __slots__ = ("_count", "_points")

    def __init__(self, points: Tensor) -> None:
        self._points, self._count = _laid_out(points), len(points)

    def above(self, x: Tensor) -> Tensor:
        """Return the matrix of E(x[b], these): (B, N) -> (B, C)."""
        return _compared(_laid_out(x), self._points, len(x), self._count)

    def below(self, y: Tensor) -> Tensor:
        """Return the matrix of E(these, y[c]): (C, N) -> (B, C)."""
        # Of one caption alone, no tile is filled up.
        return _compared(self._points, _laid_out(y, 1), self._count, len(y))


def _compared(x: Floats, y: Floats, rows: int, columns: int) -> Tensor:
    """Return the violations of the first rows of points that are laid out: (rows, columns)."""
    out = np.empty((len(x), len(y)), np.float32)
    _shared(lambda start, end: _compare(x, y, out, start, end), len(y), TILE, out.size * x.shape[1])
    return torch.from_numpy(out)[:rows, :columns].contiguous()


def _laid_out(points: Tensor, multiple: int = TILE) -> Floats:
    """Copy points with zeros up to a multiple of rows, whole tiles, and a line between rows.

    Rows whose distance is a power of two would share the same few places of a cache.
    """
    rows, dimension = points.shape
    laid = np.zeros((_up(rows, multiple), _up(dimension, LANES) + LANES), np.float32)
    laid[:rows, :dimension] = points.detach()
    return laid


def _taken(laid: Floats, shape: torch.Size) -> Tensor:
    return torch.from_numpy(laid)[: shape[0], : shape[1]].contiguous()


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _shared(work: Callable[[int, int], None], count: int, multiple: int, gaps: int) -> None:
    """Divide `count` things, by `multiple`, among as many threads as torch has and are worth it."""
    threads = min(torch.get_num_threads(), gaps // _PER_THREAD, count // multiple)
    if threads < 2:
        work(0, count)
        return
    edges = [at * (count // multiple) // threads * multiple for at in range(threads)] + [count]
    with ThreadPoolExecutor(threads - 1) as pool:
        helping = [pool.submit(work, *edges[at : at + 2]) for at in range(1, threads)]
        work(*edges[:2])
    for one in helping:
        one.result()


def _gap(builder: Any, x: Any, y: Any) -> Any:
    """Emit max(0, y - x); what is not a number stays none."""
    difference = builder.fsub(y, x)
    return builder.select(builder.fcmp_ordered("<", difference, _ZERO), _ZERO, difference)


def _row(builder: Any, array: Any, row: Any, offset: int) -> Any:
    width = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.mul(builder.add(row, const(offset)), width)])


def _total(builder: Any, vector: Any) -> Any:
    half = LANES
    while half := half // 2:
        lower = llvm.shuffled(builder, vector, range(half))
        vector = builder.fadd(lower, llvm.shuffled(builder, vector, range(half, 2 * half)))
    return builder.extract_element(vector, ir.Constant(llvm.INT32, 0))


def _tile_of_violations(_context: Any, x: Any, y: Any, out: Any, row: Any, column: Any) -> Any:
    """Compare `TILE` rows of x from `row` on with as many of y from `column` on."""
    return _comparison(x, y, out, TILE)


def _line_of_violations(_context: Any, x: Any, y: Any, out: Any, row: Any, column: Any) -> Any:
    """Compare `TILE` rows of x from `row` on with the one of y at `column`."""
    return _comparison(x, y, out, 1)


def _comparison(x: Any, y: Any, out: Any, columns: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored_x, stored_y, found = llvm.arrays(context, builder, signature, args, slice(3))
        xs, ys = (
            [_row(builder, array, start, i) for i in range(count)]
            for array, start, count in ((stored_x, args[3], TILE), (stored_y, args[4], columns))
        )
        sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in ys] for _ in xs]
        for total in (total for of_row in sums for total in of_row):
            builder.store(_ZERO, total)  # an alloca is made once, this tile many times
        dimension = builder.sub(builder.extract_value(stored_x.shape, 1), const(LANES))
        edges = (const(0), dimension, const(LANES))
        with cgutils.for_range_slice(builder, *edges, llvm.INT) as (at, _):
            left = [llvm.load(builder, _VECTOR, builder.gep(x, [at])) for x in xs]
            right = [llvm.load(builder, _VECTOR, builder.gep(y, [at])) for y in ys]
            for i, x_part in enumerate(left):
                for j, y_part in enumerate(right):
                    gap = _gap(builder, x_part, y_part)
                    total = sums[i][j]
                    builder.store(llvm.call(builder, "fma", gap, gap, builder.load(total)), total)
        for i, of_row in enumerate(sums):
            line = builder.gep(_row(builder, found, args[3], i), [args[4]])
            for j, total in enumerate(of_row):
                number = _total(builder, builder.load(total))
                builder.store(number, builder.gep(line, [const(j)]))
        return context.get_dummy_value()

    return types.void(x, y, out, types.int64, types.int64), generate


def _tile_of_gradients(
    _context: Any,
    x: Any,
    y: Any,
    weights: Any,
    x_sums: Any,
    y_sums: Any,
    row: Any,
    column: Any,
    start: Any,
    end: Any,
) -> Any:
    """Add the weighted gaps of a tile to the sums of either set, in the coordinates of a range."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = llvm.arrays(context, builder, signature, args, slice(5))
        xs, ys, lines, of_xs, of_ys = (
            [_row(builder, array, args[at], i) for i in range(TILE)]
            for array, at in zip(given, (5, 6, 5, 5, 6), strict=True)
        )
        shares = [
            [
                llvm.spread(builder, _VECTOR, builder.load(builder.gep(line, [place])))
                for place in (builder.add(args[6], const(j)) for j in range(TILE))
            ]
            for line in lines
        ]
        with cgutils.for_range_slice(builder, args[7], args[8], const(LANES), llvm.INT) as (at, _):
            left, right, from_x, to_y = (
                [llvm.load(builder, _VECTOR, builder.gep(pointer, [at])) for pointer in pointers]
                for pointers in (xs, ys, of_xs, of_ys)
            )
            for i, x_part in enumerate(left):
                for j, y_part in enumerate(right):
                    share = builder.fmul(_gap(builder, x_part, y_part), shares[i][j])
                    from_x[i] = builder.fsub(from_x[i], share)
                    to_y[j] = builder.fadd(to_y[j], share)
            for sums, pointers in ((from_x, of_xs), (to_y, of_ys)):
                for vector, pointer in zip(sums, pointers, strict=True):
                    llvm.store(builder, vector, builder.gep(pointer, [at]))
        return context.get_dummy_value()

    return types.void(x, y, weights, x_sums, y_sums, *[types.int64] * 4), generate


_violations: Any = intrinsic(_tile_of_violations)
_line: Any = intrinsic(_line_of_violations)
_gradients: Any = intrinsic(_tile_of_gradients)


@llvm.kernel
def _compare(x: Floats, y: Floats, out: Floats, start: int, end: int) -> None:
    """Write the violations of all x (B, N) and of the y (C, N) of a range to `out` (B, C)."""
    for first in range(0, len(x), _TOGETHER):
        last = min(first + _TOGETHER, len(x))
        whole = start + (end - start) // TILE * TILE
        for column in range(start, whole, TILE):
            for row in range(first, last, TILE):
                _violations(x, y, out, row, column)
        for column in range(whole, end):
            for row in range(first, last, TILE):
                _line(x, y, out, row, column)


@llvm.kernel
def _add_up(
    x: Floats, y: Floats, weights: Floats, x_sums: Floats, y_sums: Floats, start: int, end: int
) -> None:
    """Add up the gradients of all x (B, N) and y (C, N), in the coordinates of a range.

    `weights` (B, C) are twice the gradient of the violations.
    """
    for first in range(0, len(y), _TOGETHER):
        last = min(first + _TOGETHER, len(y))
        for row in range(0, len(x), TILE):
            for column in range(first, last, TILE):
                _gradients(x, y, weights, x_sums, y_sums, row, column, start, end)
