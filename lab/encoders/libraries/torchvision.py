"""torchvision's classification networks as encoders of pictures."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from typing import Any

import torchvision
from torch import nn

from hasse.lab.encoders.libraries.classifiers import ClassifierBackbone
from hasse.models.errors import BackboneError


def build(name: str, full_name: str) -> ClassifierBackbone:
    """Build a network by its torchvision name, with random weights.

    Raises:
        BackboneError: there is no such network.
    """
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        raise BackboneError(
            f"torchvision has no classification network '{name}'; there is {', '.join(near)}"
        )
    options: dict[str, Any] = {}
    if name in {"googlenet", "inception_v3"}:
        # The published weights need rescaled inputs, and have no auxiliary classifiers.
        options = {"transform_input": True, "aux_logits": False, "init_weights": False}
    network = torchvision.models.get_model(name, weights=None, **options)
    if name.startswith("mnasnet"):
        # MNASNet refuses a state dict without torch's version metadata, such as safetensors.
        network = nn.Sequential(
            OrderedDict(
                layers=network.layers, pool=nn.AdaptiveAvgPool2d(1), classifier=network.classifier
            )
        )
    return ClassifierBackbone(full_name, network)


def published_url(name: str) -> str:
    """Return the URL of the best published weights for pictures of 224 pixels.

    Raises:
        BackboneError: there are none.
    """
    try:
        weights = torchvision.models.get_model_weights(name)
    except ValueError as error:
        raise BackboneError(f"torchvision publishes no weights for '{name}'") from error
    options = [weights.DEFAULT, *weights]
    return str(next((w for w in options if max(w.meta["min_size"]) <= 224), options[0]).url)
