"""Encoders by name, `LIBRARY/NAME`: building them, and downloading their weights."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from hasse.lab.encoders.backbone import Backbone, fingerprint_of
from hasse.lab.encoders.libraries.downloads import (
    EncoderFiles,
    Tell,
    download_file,
    download_repository,
)
from hasse.models.encoders.names import LITE
from hasse.models.errors import BackboneError, pip_install

if TYPE_CHECKING:
    from hasse.lab.encoders.libraries.open_clip import EncoderPair

# The package and the extra of Hasse for each library; torchvision is always installed.
_EXTRAS = {
    "timm": ("timm", "timm"),
    "open_clip": ("open_clip", "open-clip"),
    "sentence-transformers": ("transformers", "text"),
}
LIBRARIES = ("torchvision", *_EXTRAS)
SENTENCE_ENCODER = EncoderFiles(
    weights=("model.safetensors",),
    needed=("config.json", "tokenizer.json"),
    optional=("tokenizer_config.json", "special_tokens_map.json", "vocab.txt"),
)


def build_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Build an encoder of pictures by its name, with random weights or those of a file or folder.

    `LITE` needs no file: its weights are in a package that is installed with Hasse.

    Raises:
        BackboneError: there is no such encoder, or the file does not hold its weights.
    """
    library, inner = _parts(name)
    if library == "sentence-transformers":
        raise BackboneError(
            f"{name} encodes texts and no pictures: name it to 'hasse study photographs "
            "features', and here "
            f"another, such as {LITE}"
        )
    if library == "open_clip":
        from hasse.lab.encoders.libraries import open_clip

        return open_clip.build_images(name, weights)
    if name == LITE:
        from hasse.lab.encoders.libraries import efficientnet_lite
        from hasse.lab.encoders.libraries.classifiers import ClassifierBackbone

        network = efficientnet_lite.pretrained()
        backbone: Backbone = ClassifierBackbone(name, network, efficientnet_lite.PREPROCESSING)
    elif library == "timm":
        from hasse.lab.encoders.libraries import timm

        backbone = timm.build(inner, name)
    else:
        from hasse.lab.encoders.libraries import torchvision

        backbone = torchvision.build(inner, name)
    if weights is not None:
        backbone.load_weights(weights)
    return backbone


def build_encoder_pair(name: str, weights: Path) -> EncoderPair:
    """Build an encoder of pictures and one of texts that share a space, by their name.

    Raises:
        BackboneError: there are none of that name, or the file does not hold their weights.
    """
    library, _ = _parts(name)
    if library != "open_clip":
        raise BackboneError(
            f"{name} does not encode both pictures and texts: name a model of open_clip, such as "
            f"open_clip/ViT-B-32:laion2b_s34b_b79k"
        )
    from hasse.lab.encoders.libraries import open_clip

    return open_clip.load(name, weights)


def require_library(name: str) -> None:
    """Refuse an encoder whose library does not exist or is not installed (BackboneError)."""
    _parts(name)


def is_installed(backbone: Backbone) -> bool:
    """Return whether an installed package has a backbone's weights: checkpoints omit them.

    Raises:
        BackboneError: that package is missing.
    """
    if backbone.name != LITE:
        return False
    installed_fingerprint = build_backbone(LITE).fingerprint()
    return fingerprint_of(LITE, backbone.state_dict()) == installed_fingerprint


def download_weights(name: str, tell: Tell = lambda line: None) -> Path:
    """Download the published weights of an encoder once, and return their file or folder.

    Raises:
        BackboneError: there are none, or they cannot be downloaded.
    """
    library, inner = _parts(name)
    if name == LITE:
        raise BackboneError(f"the weights of {name} are installed with Hasse: name no others")
    if library == "torchvision":
        from hasse.lab.encoders.libraries.torchvision import published_url

        url = published_url(inner)
        return download_file(url, f"torchvision/{url.rsplit('/', 1)[1]}", tell)
    if library == "timm":
        from hasse.lab.encoders.libraries import timm

        return download_repository(timm.hub_repository(inner), timm.FILES, tell) / timm.WEIGHTS
    if library == "sentence-transformers":
        return download_repository(name, SENTENCE_ENCODER, tell)
    from hasse.lab.encoders.libraries import open_clip

    return download_repository(open_clip.hub_repository(name), open_clip.FILES, tell)


def _parts(name: str) -> tuple[str, str]:
    """Return an encoder's library, which has to be installed, and its name there."""
    library, slash, inner = name.partition("/")
    if not slash:
        raise BackboneError(
            f"'{name}' is not an encoder's name, which begins with its library's: "
            f"{' or '.join(f'{known}/{name}' for known in LIBRARIES)}"
        )
    if library not in LIBRARIES:
        near = difflib.get_close_matches(library, LIBRARIES, n=1) or LIBRARIES
        names = " or ".join(f"{each}/NAME" for each in near)
        raise BackboneError(f"no encoders come from '{library}': name {names}")
    package, extra = _EXTRAS.get(library, ("torchvision", ""))
    if name != LITE and importlib.util.find_spec(package) is None:
        raise BackboneError(f"{name} needs a package that is missing: {pip_install(extra)}")
    return library, inner
