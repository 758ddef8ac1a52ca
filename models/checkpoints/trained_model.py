"""Loads a model that Hasse has trained, ready to encode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hasse.models.checkpoints.model_folder import VOCABULARY, CheckpointError
from hasse.models.checkpoints.weights import stored_names, weights
from hasse.models.encoders.model_config import ModelConfig, config_from_options
from hasse.models.encoders.names import LITE, full_name
from hasse.models.errors import pip_install
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.networks import picture_network
from hasse.models.networks.efficientnet_lite import FINGERPRINT
from hasse.models.networks.network import NetworkError, Runtime
from hasse.models.networks.picture_network import PictureNetwork
from hasse.models.picture_model import PictureModel
from hasse.models.text_model import TextModel
from hasse.models.vocabulary import Vocabulary

PICTURES = "pictures.onnx"  # the network of pictures, with its weights in model.safetensors
BACKBONE = "images.backbone."  # prefix of the network's tensors


def load(
    folder: Path,
    config: Mapping[str, Any],
    sums: Mapping[str, str],
    device: str,
    *,
    with_pictures: bool,
    one_off: bool,
    runtime: Runtime,
) -> TextModel:
    """Read a model, ready to encode; see `hasse.models.checkpoints.checkpoint.load`."""
    shape = shape_of(folder, config)
    if not shape.is_packable:
        raise CheckpointError(
            f"{folder} reads captions with the network of a study: use it with the commands of "
            f"'hasse lab' and 'hasse study'"
        )
    parts = Vocabulary.load(folder / VOCABULARY), Preprocessing(**config["preprocessing"])
    with weights(folder, without=BACKBONE) as arrays:
        if not with_pictures:
            return TextModel(shape, *parts, arrays, one_off=one_off)
        network = _network(folder, config, sums, shape.backbone, runtime, device)
        return PictureModel(shape, *parts, arrays, network, one_off=one_off)


def shape_of(folder: Path, config: Mapping[str, Any]) -> ModelConfig:
    """Return the shape of a trained model, with the current name of its backbone."""
    options = config["model"] | {"backbone": full_name(config["model"]["backbone"])}
    try:
        return config_from_options(options)
    except KeyError as error:
        raise CheckpointError(
            f"{folder} reads captions with a unit {error}, which is not installed: install Hasse "
            f"with its studies, by 'pip install -e .' in a clone of the repository"
        ) from error


def _network(
    folder: Path,
    config: Mapping[str, Any],
    sums: Mapping[str, str],
    backbone: str,
    runtime: Runtime,
    device: str,
) -> PictureNetwork:
    """Open the network of pictures: that of the folder, or that of an installed package.

    Raises:
        CheckpointError: there is none, or it cannot be opened.
    """
    recorded = config.get("network")
    try:
        if PICTURES in sums:
            checksum = recorded or sums[PICTURES]
            return picture_network.open_file(folder / PICTURES, backbone, checksum, runtime, device)
        if any(name.startswith(BACKBONE) for name in stored_names(folder)):
            raise CheckpointError(
                f"{folder} has no {PICTURES}, which encodes pictures: 'hasse lab model export "
                f"{folder}' makes it of the model's own weights ({pip_install('lab')})"
            )
        if backbone != LITE:
            raise CheckpointError(
                f"{folder} knows no pictures: it has neither {PICTURES} nor weights of {backbone}; "
                f"restore it, or train the model again"
            )
        if recorded != FINGERPRINT:
            raise CheckpointError(
                f"{folder} learned from features of another {LITE} than the one installed: "
                f"install the version of Hasse that trained it"
            )
        return picture_network.open_lite(runtime, device)
    except NetworkError as error:
        raise CheckpointError(f"{folder}: {error}") from error
