"""A torchvision classification network without its classifier.

What is left ends in the pooled features that the classifier read: 2,048 numbers for a ResNet-50,
fc7 after its ReLU (4,096) for a VGG19, as in the paper. Nothing here goes to the network except
`download_weights`.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import http.client
import re
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import torch
import torchvision
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from models.errors import HasseError
from models.files import publish_file

# The attribute that holds the classifier, in all of torchvision's families.
_HEADS = ("fc", "classifier", "head", "heads")
# The side classifiers of GoogLeNet and Inception, which only help training.
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
# torchvision's published DenseNets still have the layer names of an earlier version.
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
_CHUNK = 1 << 20


class BackboneError(HasseError):
    """A network or weights that cannot be used; the message says why and what to do."""


class Backbone(nn.Module):
    """A network from pixels to features.

    Attributes:
        name: what torchvision calls the network.
        feature_dimension: F, the number of features of a picture.
        grid: whether each cell of the last grid keeps its own features.
        origin: the fingerprint of the network that this one is a copy of, be it rounded or laid out
            otherwise; None where it is itself.
    """

    def __init__(self, name: str, network: nn.Module) -> None:
        """Take off the classifier of `network`; see `build_backbone`."""
        super().__init__()
        self.name = name
        self.frozen = False
        self.grid = False
        self.origin: str | None = None
        self.feature_dimension = _remove_classifier(name, network)
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """Return features: (B, 3, H, W) -> (B, F), or (B, cells, F) where the grid is kept."""
        # Convolutions are about a third quicker on this layout, on the CPU too.
        features: Tensor = self.network(pixels.contiguous(memory_format=torch.channels_last))
        if self.grid:  # the network has flattened it: (B, F * cells)
            return features.reshape(len(features), self.feature_dimension, -1).transpose(1, 2)
        return features.flatten(1)

    def require_side(self, side: int) -> None:
        """Try a picture of `side` x `side` pixels, since some networks take one size only.

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
        """Return the features of every cell of the last grid, no longer their average.

        Raises:
            BackboneError: the network does not end in the average of a grid.
        """
        if self.grid:
            return self
        if not self.has_grid():
            raise BackboneError(
                f"the network '{self.name}' does not end in the average of a grid, so it sees no "
                f"parts of a picture: take one that does, such as a ResNet, RegNet, EfficientNet "
                f"or MobileNetV2"
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
        """Whether the network ends in the average of a grid, which it could keep."""
        if self.grid or self._averages_in_passing():
            return True
        pool = getattr(self.network, self._pool(), None)
        head = next(getattr(self.network, name) for name in _HEADS if hasattr(self.network, name))
        averages = isinstance(pool, nn.AdaptiveAvgPool2d) and pool.output_size in {1, (1, 1)}
        return averages and not len(head)

    def _averages_in_passing(self) -> bool:
        """Whether it averages by no layer that could be left out."""
        return (
            isinstance(self.network, torchvision.models.MobileNetV2) and not self.network.classifier
        )

    def _pool(self) -> str:
        """Return MNASNet's name of the layer that averages, or that of all others."""
        return "pool" if hasattr(self.network, "pool") else "avgpool"

    def freeze(self) -> Self:
        """Fix the weights and the statistics of batch normalisation, for good.

        A later `.train()` of a model that contains this backbone leaves it in evaluation mode:
        otherwise batch statistics would drift with no gradient to follow.
        """
        self.frozen = True
        self.requires_grad_(False)
        return self.eval()

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for a frozen backbone, which stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def for_inference(self) -> Backbone:
        """Return a frozen copy that computes the same features sooner, and is good for no more.

        Batch normalisation is folded into the convolution before it and weights are laid out as
        the CPU likes them: of a MobileNetV2, about twice as quick in batches and a sixth alone,
        equal to rounding. Its state is another's, and its fingerprint this network's.
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
    """Return the fingerprint of a backbone of which these are the name and the state."""
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

    `weights` is a state dict of the whole network or of the part that is kept: `.safetensors`,
    or torchvision's own `.pth` (read without running code).

    Raises:
        BackboneError: there is no such network, or the file does not hold its weights.
    """
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
        # Its own class refuses a state dict without torch's version note, as safetensors has it.
        network = nn.Sequential(
            OrderedDict(
                layers=network.layers, pool=nn.AdaptiveAvgPool2d(1), classifier=network.classifier
            )
        )
    backbone = Backbone(name, network)
    if weights is not None:
        _load(backbone, weights)
    return backbone


def _remove_classifier(name: str, network: nn.Module) -> int:
    """Cut the network before its last linear (or 1 x 1 convolution) layer; return that's input."""
    for attribute in _HEADS:
        head = getattr(network, attribute, None)
        layers = list(head.children()) if isinstance(head, nn.Sequential) else [head]
        for at in reversed(range(len(layers))):
            last = layers[at]
            if isinstance(last, nn.Conv2d):  # SqueezeNet pools what it has classified
                setattr(network, attribute, nn.AdaptiveAvgPool2d(1))
                return last.in_channels
            if isinstance(last, nn.Linear):
                kept = layers[:at]
                while kept and isinstance(kept[-1], nn.Dropout):
                    kept.pop()
                setattr(network, attribute, nn.Sequential(*kept))
                return last.in_features
    raise BackboneError(f"the network '{name}' has no classifier that we know how to take off")


def _load(backbone: Backbone, path: Path) -> None:
    found = _read_weights(path)
    wanted = backbone.network.state_dict()
    missing = sorted(
        key
        for key in wanted.keys() - found.keys()
        if not key.endswith("num_batches_tracked")  # absent from files of old versions
    )
    foreign = sorted(
        key
        for key in found.keys() - wanted.keys()
        if not key.startswith((*(f"{head}." for head in _HEADS), *_AUXILIARY))
    )
    misshapen = [
        f"{key} is {tuple(found[key].shape)}, not {tuple(value.shape)}"
        for key, value in wanted.items()
        if key in found and found[key].shape != value.shape
    ]
    trouble = [
        *(f"{key} is missing" for key in missing),
        *(f"{key} is not part of it" for key in foreign),
        *misshapen,
    ]
    if trouble:
        more = f", and {len(trouble) - 1:,} more" if len(trouble) > 1 else ""
        raise BackboneError(
            f"{path} does not hold weights of torchvision's {backbone.name} "
            f"({trouble[0]}{more}): name the network they belong to, or another file"
        )
    kept = {key: found.get(key, value) for key, value in wanted.items()}
    try:
        backbone.network.load_state_dict(kept)
    except RuntimeError as error:  # sparse or quantised ones, or none but their shapes
        raise BackboneError(
            f"{path} holds weights that torch cannot copy: save them as plain tensors of numbers"
        ) from error


def _read_weights(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise BackboneError(f"there is no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            found: object = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's reader of pickles raises what it likes on other files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "UnpicklingError":  # which says how to run what the file holds
            reason = "it holds other things than tensors"
        raise BackboneError(
            f"{path} cannot be read as weights ({reason}): "
            f"it should be a .safetensors file or a state dict saved by torch"
        ) from error
    if not isinstance(found, Mapping) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in found.items()
    ):
        raise BackboneError(f"{path} is not a state dict: save model.state_dict() and name that")
    return {_OLD_DENSENET.sub(r"\1\2", key): value for key, value in found.items()}


def download_weights(name: str, progress: Callable[[int, int], None] | None = None) -> Path:
    """Fetch torchvision's ImageNet weights of a network once, and return the file.

    It is kept where torchvision itself keeps it, and checked against the hash in its name.
    `progress` is called with bytes received and bytes in all.

    Raises:
        BackboneError: it cannot be fetched; the message names the file and where to put it.
    """
    url = _published(name)
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    if path.is_file():
        return path
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")  # others may fetch it as well
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            digest = _fetch(url, partial, progress)
            expected = path.stem.rsplit("-", 1)[-1]
            if not digest.startswith(expected):
                raise BackboneError(
                    f"what came from {url} is not what it should be (SHA-256 {digest[:8]}, "
                    f"not {expected}): try again, or name a file with --weights"
                )
            publish_file(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, http.client.HTTPException) as error:
        raise BackboneError(
            f"the weights of {name} cannot be fetched ({str(error).strip()}): download {url} "
            f"elsewhere and put it at {path}, or name the file with --weights"
        ) from error
    return path


def _published(name: str) -> str:
    """Return the address of the best published weights that take pictures of 224 pixels."""
    try:
        weights = torchvision.models.get_model_weights(name)
    except ValueError as error:
        raise BackboneError(f"torchvision publishes no weights for '{name}'") from error
    options = [weights.DEFAULT, *weights]
    return str(next((w for w in options if max(w.meta["min_size"]) <= 224), options[0]).url)


def _fetch(url: str, path: Path, progress: Callable[[int, int], None] | None) -> str:
    digest = hashlib.sha256()
    done = 0
    with urllib.request.urlopen(url, timeout=30) as answer, path.open("wb") as file:  # noqa: S310
        total = answer.length or 0  # none where it does not say, or says no number
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
    return digest.hexdigest()
