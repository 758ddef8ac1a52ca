"""EfficientNet-Lite2 in torch; see `hasse.models.networks.efficientnet_lite`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hasse.lab.encoders.random_weights import SkipRandomWeights
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.networks.efficientnet_lite import (
    CLASSES,
    EPSILON,
    HEAD,
    STAGES,
    STEM,
    read_tensors,
)

_MOMENTUM = 0.01
PREPROCESSING = Preprocessing(
    resize=292, crop=260, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic"
)


class EfficientNetLite2(nn.Module):
    """The classification network."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*_convolution(3, STEM, 3, stride=2), nn.ReLU6(inplace=True)]
        channels = STEM
        for blocks, kernel, first_stride, width, out in STAGES:
            for block in range(blocks):
                stride = first_stride if block == 0 else 1
                layers.append(_Block(channels, width * channels, out, kernel, stride))
                channels = out
        layers += [*_convolution(channels, HEAD, 1), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify pictures: (B, 3, H, W) -> (B, classes)."""
        logits: Tensor = self.classifier(self.avgpool(self.features(pixels)).flatten(1))
        return logits


class _Block(nn.Module):
    """An inverted residual: more channels, a depthwise convolution, fewer channels."""

    def __init__(self, channels: int, width: int, out: int, kernel: int, stride: int) -> None:
        super().__init__()
        widening = (
            [*_convolution(channels, width, 1), nn.ReLU6(inplace=True)] if width > channels else []
        )
        self.layers = nn.Sequential(
            *widening,
            *_convolution(width, width, kernel, stride=stride, groups=width),
            nn.ReLU6(inplace=True),
            *_convolution(width, out, 1),
        )
        self.is_residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return x + out if self.is_residual else out


class _Padding(nn.Module):
    """Pads as TensorFlow does for a convolution of stride 2."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        height, width = (self.kernel - 2 + side % 2 for side in (x.shape[2], x.shape[3]))
        before = width // 2, height // 2
        return nn.functional.pad(x, (before[0], width - before[0], before[1], height - before[1]))


def _convolution(
    channels: int, out: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    padding = kernel // 2 if stride == 1 else 0
    layers: list[nn.Module] = [
        nn.Conv2d(channels, out, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(out, EPSILON, _MOMENTUM),
    ]
    return layers if stride == 1 else [_Padding(kernel), *layers]


def pretrained() -> EfficientNetLite2:
    """Return the network with the weights of the installed package, in evaluation mode.

    Raises:
        NetworkError: the package is not installed, or its file differs.
    """
    with SkipRandomWeights():
        network = EfficientNetLite2()
    tensors = iter(read_tensors())
    state = network.state_dict()
    for key, value in state.items():
        if not key.endswith("num_batches_tracked"):
            state[key] = _shaped(next(tensors), value.shape)
    network.load_state_dict(state)
    return network.eval()


def _shaped(array: NDArray[np.float32], shape: torch.Size) -> Tensor:
    """Return a tensor of the package, whose dimensions are in the order of TensorFlow."""
    if len(shape) == 4:
        out, channels, *kernel = shape
        ordered = array.reshape(*kernel, channels, out).transpose(3, 2, 0, 1)
    else:
        ordered = array.reshape(shape[::-1]).T
    return torch.from_numpy(ordered.copy())
