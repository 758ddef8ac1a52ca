"""The network from pictures to features below a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.names import LITE
from hasse.models.networks import efficientnet_lite
from hasse.models.networks.efficientnet_lite import FINGERPRINT
from hasse.models.networks.network import Network, NetworkError, Runtime, open_network

PIXELS, FEATURES = "pixels", "features"  # the input and the output

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class PictureNetwork:
    """A network that several threads may run at the same time.

    Attributes:
        name: the encoder's.
        network: from pixels (1, 3, H, W) to features (1, F) or (1, cells, F).
        checksum: the fingerprint of the network.
        classes: weights (classes, F) and biases (classes,) of its classifier, if its classes are
            synsets of WordNet, else None.
    """

    name: str
    network: Network
    checksum: str
    classes: tuple[Floats, Floats] | None = None

    @property
    def dtype(self) -> str:
        """The type of the computation and the runtime, in words."""
        return self.network.dtype

    @property
    def device(self) -> str:
        """Where the network runs."""
        return self.network.device

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, of the name and the weights."""
        return self.checksum

    def classifier(self) -> tuple[Floats, Floats]:
        """Return the weights and biases of its classifier.

        Raises:
            NetworkError: it has none whose classes are synsets of WordNet.
        """
        if self.classes is None:
            raise NetworkError(
                f"{self.name} has no classifier here whose classes are synsets of WordNet",
                f"ground a model on {LITE}",
            )
        return self.classes

    def features(self, pixels: Floats) -> Floats:
        """Return the features of pictures, one by one: (B, 3, H, W) -> (B, F) or (B, cells, F)."""
        rows = [self.network.run({PIXELS: picture[None]})[FEATURES] for picture in pixels]
        return np.concatenate(rows)


def open_lite(runtime: Runtime, device: str) -> PictureNetwork:
    """Open the network whose weights are in an installed package.

    Raises:
        NetworkError: the package or a runtime is missing, or the package's file differs.
    """
    tensors = efficientnet_lite.read_tensors()
    network = open_network(efficientnet_lite.graph(tensors), runtime, device)
    return PictureNetwork(LITE, network, FINGERPRINT, efficientnet_lite.classifier(tensors))


def open_file(
    path: Path, name: str, checksum: str, runtime: Runtime, device: str
) -> PictureNetwork:
    """Open a network in an ONNX file.

    Raises:
        NetworkError: a runtime is missing, or the file is no network from pixels to features.
    """
    network = open_network(path, runtime, device)
    for expected, ports in ((PIXELS, network.inputs), (FEATURES, network.outputs)):
        if list(ports) != [expected]:
            raise NetworkError(
                f"{path} is a network from {', '.join(network.inputs)} to "
                f"{', '.join(network.outputs)}, not from {PIXELS} to {FEATURES}",
                "write it anew by 'hasse lab model export'",
            )
    return PictureNetwork(name, network, checksum)
