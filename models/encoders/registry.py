"""Encoders by name, `LIBRARY/NAME`: how they are built, and where their weights come from."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path
from types import ModuleType

from models.encoders.backbone import Backbone, fingerprint_of
from models.encoders.downloads import Progress, PublishedFile, Tell, download, hub_files
from models.encoders.names import LITE
from models.encoders.weights import BackboneError

LIBRARIES = ("torchvision", "timm")


def build_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Build an encoder of pictures by its name, with random weights or those of a file.

    `LITE` needs no file: a package that is installed with Hasse has its weights.

    Raises:
        BackboneError: there is no such encoder, or the file does not hold its weights.
    """
    library, inner = _parts(name)
    if name == LITE:
        from models.encoders.libraries import efficientnet_lite
        from models.encoders.libraries.torchvision import TorchvisionBackbone

        network = efficientnet_lite.pretrained()
        backbone: Backbone = TorchvisionBackbone(name, network, efficientnet_lite.PREPROCESSING)
    elif library == "timm":
        backbone = _timm(name).build(inner, name)
    else:
        from models.encoders.libraries import torchvision

        backbone = torchvision.build(inner, name)
    if weights is not None:
        backbone.load_weights(weights)
    return backbone


def is_installed(backbone: Backbone) -> bool:
    """Tell whether an installed package has its weights, so that no checkpoint need keep them.

    Raises:
        BackboneError: that package is missing.
    """
    if backbone.name != LITE:
        return False
    installed = build_backbone(LITE).fingerprint()
    return fingerprint_of(LITE, backbone.state_dict()) == installed


def download_weights(
    name: str, progress: Progress | None = None, tell: Tell = lambda line: None
) -> Path:
    """Download the published weights of an encoder once, and return their file.

    Raises:
        BackboneError: there are none, or they cannot be downloaded.
    """
    library, inner = _parts(name)
    if name == LITE:
        raise BackboneError(f"the weights of {name} are installed with Hasse: name no others")
    if library == "torchvision":
        from models.encoders.libraries.torchvision import published_url

        url = published_url(inner)
        file = url.rsplit("/", 1)[1]
        begins = Path(file).stem.rsplit("-", 1)[-1]
        return download(PublishedFile(url, f"torchvision/{file}", begins), progress, tell)
    files = hub_files(_timm(name).hub_repository(inner))
    weights = next((file for file in files if file.place.endswith("/model.safetensors")), None)
    if weights is None:
        raise BackboneError(f"timm publishes no weights of '{inner}' as safetensors")
    return download(weights, progress, tell)


def _timm(name: str) -> ModuleType:
    if importlib.util.find_spec("timm") is None:
        raise BackboneError(f"{name} needs a package that is missing: pip install 'hasse[timm]'")
    from models.encoders.libraries import timm

    return timm


def _parts(name: str) -> tuple[str, str]:
    """Return an encoder's library and its name there."""
    library, slash, inner = name.partition("/")
    if not slash:
        raise BackboneError(
            f"'{name}' is not an encoder's name, which begins with its library's: "
            f"torchvision/{name} or timm/{name}"
        )
    if library not in LIBRARIES:
        near = difflib.get_close_matches(library, LIBRARIES, n=1)
        known = near or LIBRARIES
        raise BackboneError(
            f"no encoders come from '{library}'; they come from {' or '.join(known)}, as in "
            f"torchvision/resnet50 or timm/tf_efficientnet_lite2"
        )
    return library, inner
