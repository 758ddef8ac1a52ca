"""Violations and penalties of torch tensors, differentiable, for training.

Shapes: N is the dimension of a point, B and C are numbers of points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hasse.models.kernels import cpu_violations
from hasse.models.score import MORE_GENERAL, Score

# Elements of a block of the B x C x N cube, if no kernel can be used: 2^18 of four bytes are 1 MB,
# which fits in the cache of one core.
BLOCK_ELEMENTS = 1 << 18


def penalties(score: Score, images: Tensor, captions: Tensor) -> Tensor:
    """Return every image's penalty with every caption: (I, N), (C, N) -> (I, C).

    Those of the order scores are in [0, inf). That of the cosine is 1 - x.y, in [0, 2].
    """
    general = MORE_GENERAL[score]
    if general is None:
        return 1 - images @ captions.T
    if general == "caption":
        return pairwise_violation(images, captions)
    return pairwise_violation(captions, images).T


def violation(x: Tensor, y: Tensor) -> Tensor:
    """Return E(x, y) over the last dimension: (..., N), (..., N) -> (...), in [0, inf)."""
    return (y - x).clamp(min=0).square().sum(-1)


def pairwise_violation(x: Tensor, y: Tensor) -> Tensor:
    """Return the matrix of E(x[b], y[c]): (B, N), (C, N) -> (B, C), differentiable in both.

    The B x C x N cube of differences is never stored, forward or backward: kernels keep gaps in
    registers, on a GPU and, for float32, on a CPU. Otherwise blocks of `BLOCK_ELEMENTS` are
    computed. Sums have the type of the points. Raises ValueError if dimensions differ.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(
            f"expected two matrices of points of one dimension, got {tuple(x.shape)} "
            f"and {tuple(y.shape)}"
        )
    result: Tensor
    if x.is_cuda:
        from hasse.lab.kernels.gpu_violations import GpuViolation  # Triton may be missing on a CPU

        with torch.cuda.device(x.device):
            result = GpuViolation.apply(x, y)
    elif x.device.type == "cpu" and x.dtype == y.dtype == torch.float32:
        result = _CpuViolation.apply(x, y)
    else:
        result = blocked_violation(x, y)
    return result


def blocked_violation(x: Tensor, y: Tensor, block_elements: int = BLOCK_ELEMENTS) -> Tensor:
    """Compute `pairwise_violation` on any device, by blocks of the cube of differences.

    `block_elements` is the maximum number of elements of a block.
    """
    result: Tensor = _BlockedViolation.apply(x, y, block_elements)
    return result


class _CpuViolation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.points = tuple(points.detach().contiguous().numpy() for points in (x, y))
        return torch.from_numpy(cpu_violations.violations(*ctx.points))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        # dE/dy = 2 max(0, y - x), dE/dx = -2 max(0, y - x), each weighted by the gradient of
        # its own entry and summed over the other set. The gap of (x, y) is that of (-y, -x).
        x, y = ctx.points
        weights = 2 * grads[0].numpy()
        of_x = cpu_violations.weighted_gaps(x, y, -weights)
        of_y = cpu_violations.weighted_gaps(-y, -x, np.ascontiguousarray(weights.T))
        return torch.from_numpy(of_x), torch.from_numpy(of_y)


class _BlockedViolation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, block_elements: int) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.block_elements = block_elements
        out = x.new_empty(x.shape[0], y.shape[0])
        for rows, columns, gap in _gaps(x, y, block_elements):
            out[rows, columns] = torch.linalg.vecdot(gap, gap)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        # dE/dy = 2 max(0, y - x), dE/dx = -2 max(0, y - x), each weighted by the gradient of
        # its own entry and summed over the other set.
        (grad,) = grads
        x, y = ctx.saved_tensors
        grad_x, grad_y = torch.zeros_like(x), torch.zeros_like(y)
        for rows, columns, gap in _gaps(x, y, ctx.block_elements):
            gap.mul_(grad[rows, columns, None])  # (b, c, N)
            grad_x[rows] -= gap.sum(1)
            grad_y[columns] += gap.sum(0)
        return grad_x.mul_(2), grad_y.mul_(2), None


def _gaps(x: Tensor, y: Tensor, block_elements: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield max(0, y[c] - x[b]) block by block: rows of x, of y, and (b, c, N).

    All blocks are written to the same memory: new memory would cost more than the arithmetic. The
    caller may change it.
    """
    count, dimension = max(1, y.shape[0]), max(1, x.shape[1])
    block_columns = min(count, max(1, block_elements // dimension))
    block_rows = min(max(1, x.shape[0]), max(1, block_elements // (block_columns * dimension)))
    memory = x.new_empty(block_rows * block_columns * x.shape[1])
    for at in range(0, y.shape[0], block_columns):
        part = y[at : at + block_columns]
        for start in range(0, x.shape[0], block_rows):
            rows = x[start : start + block_rows]
            shape = (len(rows), len(part), x.shape[1])
            gap = memory[: shape[0] * shape[1] * shape[2]].view(shape)
            torch.sub(part[None], rows[:, None], out=gap).clamp_(min=0)
            yield slice(start, start + block_rows), slice(at, at + block_columns), gap
