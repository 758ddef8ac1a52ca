"""Violations of all pairs on a GPU and their gradient, fused, without storing gaps.

The kernels are Triton's, so this module is imported only when points are on a GPU. Tests without
a GPU run them in Triton's interpreter (TRITON_INTERPRET=1, set before this module is imported) and
compile them for one. Triton's compiler accepts only its own annotations, so kernels have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

jit = cast(Callable[[Callable[..., Any]], Any], triton.jit)

TILE = 16  # points of each set that one program compares
STEP = 8  # coordinates, or points, between two tests for the end
PROGRAMS = 512  # with few points, programs share the coordinates to keep a GPU busy
ROWS, WIDTH = 8, 128  # points and coordinates of a gradient that one program sums up


class GpuViolation(torch.autograd.Function):
    """The matrix of E(x[b], y[c]): (B, N), (C, N) -> (B, C), in the type of the points."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        if not x.numel() or not y.numel():
            return x.new_zeros(len(x), len(y))
        tiles = triton.cdiv(len(x), TILE) * triton.cdiv(len(y), TILE)
        # Coordinates that one program sums: all, unless there are few points to compare.
        share = triton.cdiv(x.shape[1], max(1, PROGRAMS // tiles) * STEP) * STEP
        # In columns, the loads of neighbouring programs are adjacent.
        x_columns, y_columns = _columns(x, share), _columns(y, share)
        (dimension, rows), columns = x_columns.shape, y_columns.shape[1]
        out = x.new_empty(dimension // share, rows, columns)
        _pairwise[(tiles, len(out))](
            x_columns,
            y_columns,
            out,
            rows,
            columns,
            share,
            tile=TILE,
            step=STEP,
            num_warps=1,
            enable_fp_fusion=True,
        )
        return out.sum(0)[: len(x), : len(y)]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        # dE/dy = 2 max(0, y - x), dE/dx = -2 max(0, y - x), as on a CPU.
        (grad,) = grads
        x, y = ctx.saved_tensors
        return _sum_gradient(x, y, grad, side=-1), _sum_gradient(y, x, grad.T, side=1)


@jit
def _pairwise(  # type: ignore[no-untyped-def]
    x, y, out, rows, columns, share, tile: tl.constexpr, step: tl.constexpr
):
    program, part = tl.program_id(0), tl.program_id(1)
    tiles_in_row = columns // tile
    row = program // tiles_in_row * tile + tl.arange(0, tile)
    column = program % tiles_in_row * tile + tl.arange(0, tile)
    first = part.to(tl.int64) * share
    x_at, y_at = x + first * rows + row, y + first * columns + column
    total = tl.zeros((tile, tile), x.dtype.element_ty)
    for _ in range(0, share, step):
        for _ in tl.static_range(step):
            gap = tl.load(y_at)[None, :] - tl.load(x_at)[:, None]
            # NaN stays NaN: training looks for it in the loss.
            gap = tl.maximum(gap, 0.0, propagate_nan=tl.PropagateNan.ALL)
            total += gap * gap
            x_at += rows
            y_at += columns
    out += part.to(tl.int64) * rows * columns
    tl.store(out + row.to(tl.int64)[:, None] * columns + column[None, :], total)


@jit
def _gradient(  # type: ignore[no-untyped-def]
    own,
    others,
    grad,
    out,
    own_count,
    other_count,
    dimension,
    own_stride,
    other_stride,
    side: tl.constexpr,
    rows: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
):
    program = tl.program_id(0)
    blocks_in_row = tl.cdiv(dimension, width)
    row = program // blocks_in_row * rows + tl.arange(0, rows)
    at = program % blocks_in_row * width + tl.arange(0, width)
    is_own, is_coordinate = row < own_count, at < dimension
    place = row.to(tl.int64)[:, None] * dimension + at[None, :]
    inside = is_own[:, None] & is_coordinate[None, :]
    own_points = tl.load(own + place, mask=inside, other=0.0)
    total = tl.zeros((rows, width), own.dtype.element_ty)
    others_at, weight_at = others + at, grad + row.to(tl.int64) * own_stride
    # Unrolled, so that the loads of several points overlap.
    for _ in tl.range(0, other_count, loop_unroll_factor=step):
        other_points = tl.load(others_at, mask=is_coordinate, other=0.0)[None, :]
        weight = tl.load(weight_at, mask=is_own, other=0.0)[:, None]
        total += weight * tl.maximum(side * (own_points - other_points), 0.0)
        others_at += dimension
        weight_at += other_stride
    tl.store(out + place, 2 * side * total, mask=inside)


def _sum_gradient(own: Tensor, others: Tensor, grad: Tensor, side: int) -> Tensor:
    """Sum the gradient of each point over the other set: (B, N), (C, N), (B, C) -> (B, N).

    `side` is 1 for gradients of y, the general points, and -1 for those of x.
    """
    own, others = own.contiguous(), others.contiguous()
    out = torch.empty_like(own)
    if out.numel():
        _gradient[(triton.cdiv(len(own), ROWS) * triton.cdiv(own.shape[1], WIDTH),)](
            own,
            others,
            grad,
            out,
            len(own),
            len(others),
            own.shape[1],
            *grad.stride(),
            side=side,
            rows=ROWS,
            width=WIDTH,
            step=STEP,
            num_warps=4,
            enable_fp_fusion=True,
        )
    return out


def _columns(points: Tensor, share: int) -> Tensor:
    """Transpose points, (B, N) -> (N, B), padded with zeros to whole shares and tiles."""
    count, dimension = points.shape
    return pad(points, (0, -dimension % share, 0, -count % TILE)).T.contiguous()
