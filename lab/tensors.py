"""Torch's tensors as numpy's arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hasse.models.checkpoints.weights import Array


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Convert tensors on any device to arrays, which may share their memory."""
    return {key: value.detach().cpu().numpy() for key, value in tensors.items()}


def tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Convert arrays to tensors that share their memory."""
    return {key: torch.from_numpy(value) for key, value in arrays.items()}
