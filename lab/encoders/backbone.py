"""A pretrained network from pictures to features: the base class for all libraries.

The output of a classification network without its classifier is the pooled features: 2,048 numbers
for a ResNet-50, fc7 after its ReLU (4,096) for a VGG19, as in the paper.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from hasse.lab.encoders.weights import read_weights, require_weights
from hasse.models.encoders.names import LITE, short_name
from hasse.models.errors import BackboneError
from hasse.models.grounding.evidence import Classifier
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.networks import efficientnet_lite


class Backbone(nn.Module, ABC):
    """A network from pixels to features.

    Attributes:
        name: of the encoder, such as torchvision/resnet50.
        network: the library's network, without its classifier.
        feature_dimension: F, the number of features of a picture.
        preprocessing: of pictures, as in the network's library.
        grid: whether features are of each cell of the last grid, not of their average.
        dtype: of the computation; features are float32.
        origin: for a rounded or fused copy, the fingerprint of the original network, else None.
    """

    def __init__(
        self, name: str, network: nn.Module, feature_dimension: int, preprocessing: Preprocessing
    ) -> None:
        super().__init__()
        self.name = name
        self.network = network
        self.feature_dimension = feature_dimension
        self.preprocessing = preprocessing
        self.frozen = False
        self.grid = False
        self.dtype = torch.float32
        self.origin: str | None = None

    @abstractmethod
    def has_grid(self) -> bool:
        """Return whether the network ends in the average of a grid, which `keep_grid` needs."""

    @abstractmethod
    def _remove_average(self) -> None:
        """Remove the average, so that the network ends in its grid."""

    @abstractmethod
    def _fuse(self) -> None:
        """Fold batch normalisation into the convolutions before it, where that is possible."""

    @property
    def _classifier_keys(self) -> tuple[str, ...]:
        """Prefixes of the classifier's weights, which this network does not have."""
        return ()

    def _rename_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of a file under the names of this network."""
        return weights

    def forward(self, pixels: Tensor) -> Tensor:
        """Return features: (B, 3, H, W) -> (B, F), or (B, cells, F) of the grid."""
        # Convolutions are about a third faster on this layout, on the CPU too.
        pixels = pixels.to(self.dtype).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.network(pixels).float()
        if self.grid:  # (B, F * cells) if the network flattens it
            return features.reshape(len(features), self.feature_dimension, -1).transpose(1, 2)
        return features.flatten(1)

    def load_weights(self, path: Path) -> None:
        """Load a state dict of the library's network, with or without its classifier.

        The file is `.safetensors`, or in torch's own format, read without running code.

        Raises:
            BackboneError: the file does not hold the network's weights.
        """
        weights = self._rename_weights(read_weights(path))
        require_weights(self.name, self.network, weights, path, self._classifier_keys)

    def require_side(self, side: int) -> None:
        """Try a picture of `side` x `side` pixels: some networks accept only one size.

        Raises:
            BackboneError: the network cannot take it.
        """
        training = self.training
        pixels = next(self.parameters()).new_zeros(1, 3, side, side)
        try:
            with torch.inference_mode():
                self.eval()(pixels)
        except (AssertionError, RuntimeError, ValueError) as error:
            raise BackboneError(
                f"{self.name} cannot take pictures of {side} x {side} pixels "
                f"({str(error).splitlines()[0]}): its own size is {self.preprocessing.crop}"
            ) from error
        finally:
            self.train(training)

    def keep_grid(self) -> Self:
        """Make `forward` return the features of every cell of the last grid, not their average.

        Raises:
            BackboneError: the network does not end in the average of a grid.
        """
        if self.grid:
            return self
        if not self.has_grid():
            raise BackboneError(
                f"the network '{self.name}' does not end in the average of a grid, so it has no "
                f"regions: choose a ResNet, RegNet, EfficientNet or MobileNetV2"
            )
        self._remove_average()
        self.grid = True
        return self

    def freeze(self) -> Self:
        """Fix the weights and the statistics of batch normalisation permanently.

        A later `.train()` leaves the backbone in evaluation mode: otherwise batch statistics would
        drift.
        """
        self.frozen = True
        self.requires_grad_(False)
        return self.eval()

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for a frozen backbone, which stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def for_inference(self) -> Self:
        """Return a frozen copy that computes the same features faster, up to rounding.

        Batch normalisation is folded into the convolution before it, and weights are channels-last:
        a MobileNetV2 is about twice as fast in batches and a sixth faster for one picture. The
        copy's state is not loadable into the original; it keeps the original's fingerprint.
        """
        copied = copy.deepcopy(self).freeze()
        copied.origin = self.fingerprint()
        copied._fuse()
        copied.network.to(memory_format=torch.channels_last)
        return copied

    def classifier(self) -> Classifier:
        """Return the weights and biases of its classifier: (classes, F), (classes,).

        Raises:
            BackboneError: it has none whose classes are synsets of WordNet.
        """
        if self.name != LITE:
            raise BackboneError(
                f"{self.name} has no classifier here whose classes are synsets of WordNet: ground "
                f"a model on {LITE}"
            )
        return efficientnet_lite.classifier(efficientnet_lite.read_tensors())

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, of the name and the weights."""
        if self.origin is not None:
            return self.origin
        return fingerprint_of(self.name, self.state_dict())


def fingerprint_of(name: str, weights: Mapping[str, Tensor]) -> str:
    """Return the fingerprint of a backbone by its name and state."""
    digest = hashlib.sha256(short_name(name).encode())
    for key, value in sorted(weights.items()):
        # Batch counters change no feature, and older files lack them.
        if not key.endswith("num_batches_tracked"):
            inner = key.removeprefix("network.")
            digest.update(f"\n{inner} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
