"""Weights of torchvision's networks: read from a file, or downloaded on request."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import torch
import torchvision
from safetensors.torch import load_file
from torch import Tensor, nn

from models.errors import HasseError
from models.files import publish_file

# The attribute that holds the classifier, in all of torchvision's families.
CLASSIFIERS = ("fc", "classifier", "head", "heads")
# The side classifiers of GoogLeNet and Inception, which only help training.
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
# torchvision's published DenseNets still have the layer names of an earlier version.
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
_COUNTER = "num_batches_tracked"
_CHUNK = 1 << 20


class BackboneError(HasseError):
    """A network or weights that cannot be used; the message says why and what to do."""


def load_weights(name: str, network: nn.Module, path: Path) -> None:
    """Load a file's weights into a torchvision network that has lost its classifier.

    It is a state dict of the whole network or of the part that is left: `.safetensors`, or
    torchvision's own `.pth` (read without running code).

    Raises:
        BackboneError: the file does not hold the network's weights.
    """
    try:
        result = network.load_state_dict(dict(_read_weights(path)), strict=False)
        # Old files lack batch counters, and whole networks have classifiers.
        other = (*(f"{head}." for head in CLASSIFIERS), *_AUXILIARY)
        trouble = [
            *(f"{key} is missing" for key in result.missing_keys if not key.endswith(_COUNTER)),
            *(
                f"{key} is not part of it"
                for key in result.unexpected_keys
                if not key.startswith(other)
            ),
        ]
    except RuntimeError as error:  # other shapes; or sparse, quantised or meta tensors
        trouble = str(error).splitlines()[1:] or [str(error)]
    if trouble:
        more = f", and {len(trouble) - 1:,} more" if len(trouble) > 1 else ""
        raise BackboneError(
            f"{path} does not hold weights of torchvision's {name} "
            f"({trouble[0].strip()}{more}): name the network they belong to, or another file"
        )


def _read_weights(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise BackboneError(f"there is no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            found: object = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's reader of pickles raises anything on other files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "UnpicklingError":  # its message says how to run the file
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


def download_weights(
    name: str, progress: Callable[[int, int], None] | None = None, url: str | None = None
) -> Path:
    """Download torchvision's ImageNet weights of a network once, and return the file.

    It is stored where torchvision stores it, and checked against the hash in its name. `progress`
    is called with bytes received and bytes in all; `url` is another address than torchvision's.

    Raises:
        BackboneError: it cannot be fetched; the message names the file and where to put it.
    """
    url = url or published_url(name)
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    if path.is_file():
        return path
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")  # others may fetch it too
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


def published_url(name: str) -> str:
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
    with urllib.request.urlopen(url, timeout=30) as response, path.open("wb") as file:  # noqa: S310
        total = response.length or 0  # missing or not a number: unknown
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
    return digest.hexdigest()
