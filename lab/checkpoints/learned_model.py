"""Trained models as torch modules: loaded to learn or to be measured in float32, and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hasse.lab.checkpoints.exporting import ExportError, export_pictures
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.encoders.random_weights import SkipRandomWeights
from hasse.lab.encoders.registry import is_installed
from hasse.lab.tensors import arrays, tensors
from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import KIND, Checkpoint
from hasse.models.checkpoints.model_folder import (
    CALIBRATION,
    METRICS,
    VOCABULARY,
    WEIGHTS,
    CheckpointError,
)
from hasse.models.checkpoints.trained_model import BACKBONE, PICTURES, shape_of
from hasse.models.checkpoints.weights import Array, WeightDtype, quantize, stored_names, weights
from hasse.models.encoders.model_config import without_options_of_studies
from hasse.models.encoders.names import LITE
from hasse.models.files import write_atomically
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.tensor_files import write_weights
from hasse.models.vocabulary import Vocabulary

_IMAGE_ENCODER = "images."  # prefix of its tensors


def load(
    folder: Path,
    device: str | torch.device = "cpu",
    *,
    to_learn: bool = False,
    with_pictures: bool = True,
) -> Checkpoint:
    """Read a checkpoint, whose trained model is an `OrderEmbedding` in evaluation mode.

    Args:
        folder: the checkpoint.
        device: torch's name of a device.
        to_learn: for further training, for saving again, or for a teacher. Otherwise
            `OrderEmbedding.for_inference` prepares the model.
        with_pictures: whether the model encodes pictures, else captions only.

    Raises:
        CheckpointError: as `checkpoint.load`; or the model was trained on captions alone and has
            no image encoder.
    """

    def trained(
        folder: Path, config: Mapping[str, Any], _sums: Mapping[str, str]
    ) -> OrderEmbedding:
        model = _read(folder, config, with_pictures=with_pictures)
        model.to(device).eval()
        if not to_learn:
            model.for_inference()
        return model

    return checkpoint.load_by(trained, folder, str(device), with_pictures=with_pictures)


def order_embedding_of(loaded: Checkpoint) -> OrderEmbedding:
    """Return the model trained by Hasse of a checkpoint from `load`: its own, or the one below it.

    Raises:
        CheckpointError: its encoders are those of another library.
    """
    if loaded.base is not None:
        return order_embedding_of(loaded.base)
    if not isinstance(loaded.model, OrderEmbedding):
        raise CheckpointError(
            f"{loaded.folder} has the encoders of another library, which cannot be trained or "
            f"taught by: name a model that 'hasse lab train' wrote"
        )
    return loaded.model


def save(
    folder: Path,
    model: OrderEmbedding,
    name: str,
    metrics: Mapping[str, Any],
    calibration: Calibrations | None = None,
    dtype: WeightDtype = "float32",
) -> None:
    """Write a checkpoint, each file whole or not at all.

    `dtype` is the type of stored matrices; see `hasse.models.checkpoints.weights`.
    """
    network = None
    if model.has_images:
        backbone = model.images.backbone
        network = backbone.fingerprint() if is_installed(backbone) else backbone.origin
    config = {
        "name": name,
        "model": without_options_of_studies(asdict(model.config)),
        "preprocessing": asdict(model.preprocessing),
        "network": network,
    }
    calibration = calibration or Calibrations()
    other_files = {
        VOCABULARY: model.vocabulary.to_bytes(),
        CALIBRATION: json.dumps(calibration.to_json()).encode(),
        METRICS: json.dumps(metrics, indent=2).encode(),
    }
    stored = quantize(arrays_to_store(model), dtype)
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / WEIGHTS, stored)
    (folder / PICTURES).unlink(missing_ok=True)  # of the weights before
    if any(key.startswith(BACKBONE) for key in stored):
        with suppress(ExportError):  # captions are encoded, and 'hasse lab model export' says why
            content = export_pictures(model.images.backbone, folder / WEIGHTS)
            write_atomically(folder / PICTURES, content)
    KIND.complete(folder, config, other_files)


def export(folder: Path) -> bool:
    """Write the network of pictures of a model beside its weights; its fingerprint stays.

    Returns whether there was one to write: not for the network of an installed package.

    Raises:
        CheckpointError: as `load`.
        ExportError: torch cannot export such a network.
    """
    loaded = load(folder, to_learn=True)
    folder = loaded.folder if loaded.base is None else loaded.base.folder
    if not any(key.startswith(BACKBONE) for key in stored_names(folder)):
        return False
    content = export_pictures(order_embedding_of(loaded).images.backbone, folder / WEIGHTS)
    KIND.replace(folder, PICTURES, content)
    return True


def arrays_to_store(model: OrderEmbedding) -> dict[str, Array]:
    """Return the weights of a checkpoint: all except those of an installed package."""
    stored = arrays(model.state_dict())
    if not model.has_images or not is_installed(model.images.backbone):
        return stored
    return {key: value for key, value in stored.items() if not key.startswith(BACKBONE)}


def _read(folder: Path, config: Mapping[str, Any], *, with_pictures: bool) -> OrderEmbedding:
    """Read a model, with or without its image encoder.

    Raises:
        CheckpointError: it has no image encoder, or the network's weights are missing or others.
    """
    with SkipRandomWeights():
        model = OrderEmbedding(
            shape_of(folder, config),
            Vocabulary.load(folder / VOCABULARY),
            Preprocessing(**config["preprocessing"]),
            with_pictures=with_pictures,
        )
    if with_pictures and not model.has_images:
        raise CheckpointError(
            f"{folder} has learned from captions alone and knows no pictures: use it with 'hasse "
            f"lab embed' or 'hasse study transfer' on texts; for pictures, train with 'hasse study "
            f"grounding --recipe cap2both'"
        )
    with weights(folder) as stored:
        state = {
            key: value
            for key, value in tensors(stored).items()
            if with_pictures or not key.startswith(_IMAGE_ENCODER)
        }
        if with_pictures:
            network = config.get("network")
            if not any(key.startswith(BACKBONE) for key in state):
                state |= _installed_weights(model, network, folder)
            model.images.backbone.origin = network
        model.load_state_dict(state)
    return model


def _installed_weights(
    model: OrderEmbedding, network: str | None, folder: Path
) -> dict[str, Tensor]:
    """Return the tensors of the backbone from the installed package."""
    backbone = model.images.backbone
    if backbone.name != LITE:
        raise CheckpointError(
            f"{folder / WEIGHTS} does not hold the weights of {backbone.name}: restore it, or "
            f"train the model again"
        )
    if backbone.fingerprint() != network:
        raise CheckpointError(
            f"{folder} learned from features of another {backbone.name} than the one installed: "
            f"install the version of Hasse that trained it"
        )
    return {f"{BACKBONE}{key}": value for key, value in backbone.state_dict().items()}
