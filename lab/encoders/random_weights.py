"""Modules without random weights, because a checkpoint replaces them."""

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


class SkipRandomWeights(TorchFunctionMode):
    """A context in which torch leaves tensors uninitialised instead of drawing random numbers.

    A module made in it needs its whole state loaded. Drawing numbers would take longer.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, unless it draws numbers or makes them orthogonal."""
        arguments = kwargs or {}
        if func in _DRAWS:
            return args[0] if args else arguments["tensor"]
        if func is torch.linalg.qr:
            return args[0], args[0]
        return func(*args, **arguments)
