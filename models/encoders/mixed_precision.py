"""Matrix products in bfloat16, while all else stays in float32."""

from __future__ import annotations

import platform
from typing import Any

import torch
from torch import Tensor


def supports_bfloat16(device: str | torch.device, machine: str = platform.machine()) -> bool:
    """Tell whether a device multiplies matrices faster in bfloat16 than in float32.

    Processors with AMX or AVX-512 BF16, Arm's with BF16, and NVIDIA's cards since Ampere do.
    Elsewhere it is emulated: on a Zen 3 it takes 4 to 75 times as long.
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if machine in {"aarch64", "arm64"}:
        there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        return there and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


class LowPrecisionMatmul(torch.autograd.Function):
    """x W^T, with all three products of forward and backward in `dtype`.

    (B, ..., K) and (M, K) -> (B, ..., M), in the type of x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        x_low, weight_low = x.to(dtype), weight.to(dtype)
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
