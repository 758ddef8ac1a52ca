"""Loads a model that Hasse has trained, with torch or without it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hasse.models.checkpoints import exported_networks
from hasse.models.checkpoints.model_folder import VOCABULARY, WEIGHTS, CheckpointError
from hasse.models.checkpoints.weights import tensors, weights
from hasse.models.embedding_model import EmbeddingModel
from hasse.models.encoders.model_config import ModelConfig, config_from_options
from hasse.models.encoders.names import LITE, Runtime, full_name
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.picture_model import PictureModel
from hasse.models.text_model import TextModel
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from hasse.lab.encoders.backbone import Backbone
    from hasse.lab.encoders.order_embedding import OrderEmbedding
    from hasse.models.encoders.compiled_network import CompiledNetwork

_IMAGE_ENCODER, _BACKBONE = "images.", "images.backbone."  # prefixes of their tensors


def load(
    folder: Path,
    config: Mapping[str, Any],
    fingerprint: str,
    device: str | torch.device,
    *,
    to_learn: bool,
    with_pictures: bool,
    one_off: bool,
    runtime: Runtime,
) -> EmbeddingModel:
    """Read a model, ready to encode; see `hasse.models.checkpoints.checkpoint.load`."""
    shape = _shape(folder, config)
    if not to_learn and shape.is_packable:
        network = None
        if with_pictures:
            build = partial(_backbone, folder, config, shape)
            network = exported_networks.network_of(fingerprint, build, runtime, device)
        if network is not None or not with_pictures:
            without_torch = _without_torch(folder, config, shape, network, one_off=one_off)
            return cast(EmbeddingModel, without_torch)
    model = _by_torch(folder, config, shape, with_pictures=with_pictures)
    model.to(device).eval()
    if not to_learn:
        from hasse.lab.encoders.mixed_precision import inference_dtype

        model.for_inference(inference_dtype(runtime, device))
    return model


def tensors_to_store(model: OrderEmbedding) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint: all except those of an installed package."""
    from hasse.lab.encoders.registry import is_installed

    tensors = model.state_dict()
    if not model.has_images or not is_installed(model.images.backbone):
        return tensors
    return {key: value for key, value in tensors.items() if not key.startswith(_BACKBONE)}


def _shape(folder: Path, config: Mapping[str, Any]) -> ModelConfig:
    """Return the shape of a trained model, with the current name of its backbone."""
    options = config["model"] | {"backbone": full_name(config["model"]["backbone"])}
    try:
        return config_from_options(options)
    except KeyError as error:
        raise CheckpointError(
            f"{folder} reads captions with a unit {error}, which is not installed: install Hasse "
            f"with its studies, by 'pip install -e .' in a clone of the repository"
        ) from error


def _without_torch(
    folder: Path,
    config: Mapping[str, Any],
    shape: ModelConfig,
    network: CompiledNetwork | None,
    *,
    one_off: bool,
) -> TextModel:
    """Read a model that encodes captions, and pictures too if there is a network for them."""
    with weights(folder) as arrays:
        parts = Vocabulary.load(folder / VOCABULARY), Preprocessing(**config["preprocessing"])
        if network is None:
            return TextModel(shape, *parts, arrays, one_off=one_off)
        return PictureModel(shape, *parts, arrays, network, one_off=one_off)


def _backbone(folder: Path, config: Mapping[str, Any], shape: ModelConfig) -> Backbone:
    return _by_torch(folder, config, shape, with_pictures=True).eval().backbone


def _by_torch(
    folder: Path, config: Mapping[str, Any], shape: ModelConfig, *, with_pictures: bool
) -> OrderEmbedding:
    """Read a model that encodes by torch, with or without its image encoder.

    Raises:
        CheckpointError: it has no image encoder, or the network's weights are missing or others.
    """
    from hasse.lab.encoders.order_embedding import OrderEmbedding
    from hasse.lab.encoders.random_weights import SkipRandomWeights

    with SkipRandomWeights():
        model = OrderEmbedding(
            shape,
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
    with weights(folder) as arrays:
        state = {
            key: value
            for key, value in tensors(arrays).items()
            if with_pictures or not key.startswith(_IMAGE_ENCODER)
        }
        if with_pictures:
            network = config.get("network")
            if not any(key.startswith(_BACKBONE) for key in state):
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
    return {f"{_BACKBONE}{key}": value for key, value in backbone.state_dict().items()}
