"""Matrix products in a type of their own, while all else stays in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Product(torch.autograd.Function):
    """x W^T, with all three products of forward and backward in one type.

    (B, ..., K) and (M, K) -> (B, ..., M), in the type of x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, product: torch.dtype) -> Tensor:
        x_low, weight_low = x.to(product), weight.to(product)
        ctx.save_for_backward(x_low, weight_low)
        return (x_low @ weight_low.T).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        low = grad.to(x.dtype)
        # Features of a frozen network need no gradient.
        of_x = (low @ weight).to(grad.dtype) if ctx.needs_input_grad[0] else None
        of_weight = low.flatten(0, -2).T @ x.flatten(0, -2)
        return of_x, of_weight.to(grad.dtype), None
