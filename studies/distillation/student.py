"""The student and the teacher of a distillation: two networks and what their layers hold."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse
from torchvision.models.feature_extraction import create_feature_extractor

from hasse.lab.encoders.backbone import Backbone

HINTS = 3  # grids at most, the coarsest: finer ones cost the most and say the least


def layers_of(network: Backbone, side: int) -> nn.Module:
    """Return a network that gives what its layers hold: (B, 3, S, S) -> a grid (B, K, H, W) each.

    They are a dictionary's values, the finest grid first: of each size what the last layer or
    block of layers gave. The last of them all is what the network sees. Weights stay where they
    are, and keep their names.

    Raises:
        BackboneError: the network does not end in the average of a grid.
    """
    inner = network.keep_grid().network
    last: dict[int, str] = {}

    def note(name: str, out: Tensor) -> None:
        # GoogLeNet has a layer after its grid was flattened, and Swin's blocks put channels last.
        if out.ndim == 4 and out.shape[2] == out.shape[3]:
            last[out.shape[-1]] = name

    hooks = [
        layer.register_forward_hook(lambda _layer, _given, out, name=name: note(name, out))
        for name, layer in _blocks(inner)
    ]
    training = network.training
    with torch.inference_mode():
        network.eval()(next(network.parameters()).new_zeros(1, 3, side, side))
    network.train(training)
    for hook in hooks:
        hook.remove()
    layers: nn.Module = create_feature_extractor(
        inner, {name: name for name in last.values()}, suppress_diff_warning=True
    )
    return layers


def _blocks(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, part in network.named_children():
        if type(part) is nn.Sequential:  # and none of its kinds, which are blocks themselves
            yield from ((f"{name}.{inner}", layer) for inner, layer in part.named_children())
        else:
            yield name, part


class Student(nn.Module):
    """The network that learns, and linear maps from its grids to those of the teacher."""

    def __init__(
        self,
        network: Backbone,
        teacher_channels: list[int],
        axes: int,
        side: int,
        momentum: float = 0.02,
    ) -> None:
        """Take the channels of the teacher's grids, the finest first, and of its features."""
        super().__init__()
        self.layers = layers_of(network, side)
        own = _channels(self.layers, torch.zeros(1, 3, side, side))
        many = min(HINTS, len(own), len(teacher_channels))
        pairs = zip(own[-many:], teacher_channels[-many:], strict=True)
        self.hints = nn.ModuleList(nn.Conv2d(mine, theirs, 1) for mine, theirs in pairs)
        for layer in self.layers.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = momentum
        # The mean of all pictures is larger than their differences.
        self.centred = nn.BatchNorm2d(own[-1], affine=False)
        self.head = nn.Conv2d(own[-1], axes, 1)
        nn.init.zeros_(self.head.weight)

    def forward(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Predict the teacher's features and grids: (B, 3, S, S) -> (B, axes, H, W), grids."""
        grids = list(self.layers(_laid_out(pixels)).values())
        with torch.autocast(pixels.device.type, enabled=False):
            seen: Tensor = self.head(self.centred(grids[-1].float()))
        paired = zip(self.hints, grids[-len(self.hints) :], strict=True)
        return seen, [hint(grid) for hint, grid in paired]


def _channels(layers: nn.Module, pixels: Tensor) -> list[int]:
    training = layers.training
    with torch.inference_mode():
        channels = [grid.shape[1] for grid in layers.eval()(pixels).values()]
    layers.train(training)
    return channels


def _laid_out(pixels: Tensor) -> Tensor:
    return pixels.contiguous(memory_format=torch.channels_last)  # as convolutions like them


class Teacher:
    """The network to learn from."""

    def __init__(
        self,
        network: Backbone,
        projection: Tensor | None,
        side: int,
        dtype: torch.dtype,
        device: str,
    ) -> None:
        """Take a network, a model's map of its features (N, F), and the pixels along a side."""
        self.type, self.side = dtype, side
        # Batch normalisation is folded into the convolution before it.
        layers = fuse(layers_of(copy.deepcopy(network).freeze(), side).eval(), inplace=True)
        self.layers = layers.to(device, dtype).to(memory_format=torch.channels_last)
        blank = torch.zeros(1, 3, side, side, device=device, dtype=dtype)
        self.channels = _channels(self.layers, blank)
        self.projection = projection
        self.axes = self.channels[-1]
        if projection is not None:
            self.projection = projection.to(device)
            self.axes = len(projection)

    @torch.inference_mode()
    def look(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return features of crops, and the grids of layers: (B, 3, T, T) -> (B, N, H, W), grids.

        Features are divided by the length of their average over the whole crop.
        """
        grids = list(self.layers(_laid_out(pixels.to(self.type))).values())
        last = grids[-1].float()
        seen = last / last.mean((2, 3), keepdim=True).norm(dim=1, keepdim=True).clamp(min=1e-12)
        if self.projection is not None:
            seen = torch.einsum("nf,bfhw->bnhw", self.projection, seen)
        return seen, grids


def fingerprint(rows: NDArray[Any]) -> str:
    """Return the SHA-256, in hexadecimal, of an array, row by row."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(np.ascontiguousarray(row).tobytes())
    return digest.hexdigest()
