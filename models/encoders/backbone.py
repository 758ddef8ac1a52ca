"""A torchvision classification network without its classifier.

What is left ends in the pooled features that the classifier read: 2,048 numbers for a ResNet-50,
fc7 after its ReLU (4,096) for a VGG19, as in the paper.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
import torchvision
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from models.encoders import efficientnet_lite
from models.encoders.backbone_weights import CLASSIFIERS, BackboneError, load_weights


class Backbone(nn.Module):
    """A network from pixels to features.

    Attributes:
        name: what torchvision calls the network.
        feature_dimension: F, the number of features of a picture.
        grid: whether each cell of the last grid keeps its own features.
        origin: the fingerprint of the network that this one is a rounded or fused copy of, or None.
    """

    def __init__(self, name: str, network: nn.Module) -> None:
        """Remove the classifier of `network`; see `build_backbone`."""
        super().__init__()
        self.name = name
        self.frozen = False
        self.grid = False
        self.origin: str | None = None
        self.feature_dimension = _remove_classifier(name, network)
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """Return features: (B, 3, H, W) -> (B, F), or (B, cells, F) where the grid is kept."""
        # Convolutions are about a third faster on this layout, on the CPU too.
        features: Tensor = self.network(pixels.contiguous(memory_format=torch.channels_last))
        if self.grid:  # the network has flattened it: (B, F * cells)
            return features.reshape(len(features), self.feature_dimension, -1).transpose(1, 2)
        return features.flatten(1)

    @property
    def is_installed(self) -> bool:
        """Whether an installed package has its weights, so that no checkpoint keeps them."""
        return self.name == efficientnet_lite.NAME

    def require_side(self, side: int) -> None:
        """Try a picture of `side` x `side` pixels: some networks take one size only.

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
                f"({str(error).splitlines()[0]}): most networks take a crop of 224"
            ) from error
        finally:
            self.train(training)

    def keep_grid(self) -> Self:
        """From now on return the features of every cell of the last grid, not their average.

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
        if self._averages_in_passing():
            self.network = nn.Sequential(
                OrderedDict(features=self.network.get_submodule("features"))
            )
        else:
            setattr(self.network, self._pool(), nn.Identity())
        self.grid = True
        return self

    def has_grid(self) -> bool:
        """Tell whether the network ends in the average of a grid, which it could keep."""
        if self.grid or self._averages_in_passing():
            return True
        pool = getattr(self.network, self._pool(), None)
        head = getattr(self.network, next(n for n in CLASSIFIERS if hasattr(self.network, n)))
        averages = isinstance(pool, nn.AdaptiveAvgPool2d) and pool.output_size in {1, (1, 1)}
        return averages and not len(head)

    def _averages_in_passing(self) -> bool:
        """Tell whether it averages without a layer that could be left out."""
        return (
            isinstance(self.network, torchvision.models.MobileNetV2) and not self.network.classifier
        )

    def _pool(self) -> str:
        """Return the name of the layer that averages: MNASNet's differs."""
        return "pool" if hasattr(self.network, "pool") else "avgpool"

    def freeze(self) -> Self:
        """Fix the weights and the statistics of batch normalisation, for good.

        A later `.train()` leaves the backbone in evaluation mode: otherwise batch statistics would
        drift.
        """
        self.frozen = True
        self.requires_grad_(False)
        return self.eval()

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for a frozen backbone, which stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def for_inference(self) -> Backbone:
        """Return a frozen copy that computes the same features, to rounding, faster.

        Batch normalisation is folded into the convolution before it, and weights lie channels-last:
        a MobileNetV2 is about twice as fast in batches and a sixth faster alone. The copy's state
        is not loadable into the original; it keeps the original's fingerprint.
        """
        copied = copy.deepcopy(self).freeze()
        copied.origin = self.fingerprint()
        if any(isinstance(layer, nn.BatchNorm2d) for layer in copied.modules()):
            copied.network = fuse(copied.network)
        copied.network.to(memory_format=torch.channels_last)
        return copied

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, over the name and all that features depend on."""
        if self.origin is not None:
            return self.origin
        return fingerprint_of(self.name, self.state_dict())


def fingerprint_of(name: str, weights: Mapping[str, Tensor]) -> str:
    """Return the fingerprint of a backbone by its name and state."""
    digest = hashlib.sha256(name.encode())
    for key, value in sorted(weights.items()):
        # Batch counters change no feature, and older files lack them.
        if not key.endswith("num_batches_tracked"):
            inner = key.removeprefix("network.")
            digest.update(f"\n{inner} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def build_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Build a network by its torchvision name, with random weights or those of a file.

    "efficientnet_lite2" is no network of torchvision's, and has the weights of the package that
    is installed with Hasse. `weights` is as of `load_weights`.

    Raises:
        BackboneError: there is no such network, or the file does not hold its weights.
    """
    if name == efficientnet_lite.NAME:
        return Backbone(name, efficientnet_lite.pretrained())
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        raise BackboneError(
            f"torchvision has no classification network '{name}'; there is {', '.join(near)}"
        )
    options: dict[str, Any] = {}
    if name in {"googlenet", "inception_v3"}:
        # The published weights want their input rescaled, and no side classifiers.
        options = {"transform_input": True, "aux_logits": False, "init_weights": False}
    network = torchvision.models.get_model(name, weights=None, **options)
    if name.startswith("mnasnet"):
        # Its own class refuses a state dict without torch's version metadata, as of safetensors.
        network = nn.Sequential(
            OrderedDict(
                layers=network.layers, pool=nn.AdaptiveAvgPool2d(1), classifier=network.classifier
            )
        )
    backbone = Backbone(name, network)
    if weights is not None:
        load_weights(name, backbone.network, weights)
    return backbone


def _remove_classifier(name: str, network: nn.Module) -> int:
    """Cut the network before its last linear (or 1 x 1 convolution) layer; return its inputs."""
    for attribute in CLASSIFIERS:
        head = getattr(network, attribute, None)
        layers = list(head.children()) if isinstance(head, nn.Sequential) else [head]
        for at in reversed(range(len(layers))):
            last = layers[at]
            if isinstance(last, nn.Conv2d):  # SqueezeNet classifies, then pools
                setattr(network, attribute, nn.AdaptiveAvgPool2d(1))
                return last.in_channels
            if isinstance(last, nn.Linear):
                kept = layers[:at]
                while kept and isinstance(kept[-1], nn.Dropout):
                    kept.pop()
                setattr(network, attribute, nn.Sequential(*kept))
                return last.in_features
    raise BackboneError(f"the network '{name}' has no classifier that Hasse can remove")
