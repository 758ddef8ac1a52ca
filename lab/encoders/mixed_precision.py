"""Products in bfloat16, in training."""

from __future__ import annotations

import platform

import torch
from torch import Tensor


def supports_bfloat16(device: str | torch.device, machine: str = platform.machine()) -> bool:
    """Return whether a device multiplies matrices faster in bfloat16 than in float32.

    Processors with AMX or AVX-512 BF16, Arm's with BF16, and NVIDIA's cards since Ampere do.
    Elsewhere it is emulated: on a Zen 3 it takes 4 to 75 times as long.
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if machine in {"aarch64", "arm64"}:
        available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def low_precision_matmul(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x W^T in the type of x, multiplied in `dtype`: (B, ..., K), (M, K) -> (B, ..., M).

    Both products of the gradient are in `dtype` too.
    """
    return (x.to(dtype) @ weight.to(dtype).T).to(x.dtype)
