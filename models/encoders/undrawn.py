"""Modules without the random weights that those of a checkpoint replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_DRAWS = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.kaiming_normal_,
    nn.init.kaiming_uniform_,
    nn.init.normal_,
    nn.init.uniform_,
}


class Undrawn(TorchFunctionMode):
    """While it is entered, tensors stay as they are allocated where random numbers would be drawn.

    A module that is made meanwhile needs all of its state loaded. Drawing it takes longer.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, unless it draws or makes what was drawn orthogonal."""
        given = kwargs or {}
        if func in _DRAWS:
            return args[0] if args else given["tensor"]
        if func is torch.linalg.qr:
            return args[0], args[0]
        return func(*args, **given)
