"""A model of two pretrained encoders on disk: the files of a trained one, with other contents.

model.safetensors   weights of both encoders
config.json         `DualEncoderConfig`, and how the encoders are built and pictures prepared
vocabulary.json     the tokenizer
calibration.json    what violations mean, measured where there were captions
metrics.json        empty: nothing was trained
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasse.models.checkpoints.model_folder import CheckpointError, ModelKind, weights
from hasse.models.encoders.weights import BackboneError
from hasse.models.evaluation.calibration import Calibrations
from hasse.models.images.preprocessing import Preprocessing

if TYPE_CHECKING:
    from hasse.models.dual_encoder import DualEncoder

VOCABULARY, CALIBRATION, METRICS = "vocabulary.json", "calibration.json", "metrics.json"
KIND = ModelKind("two towers", "hasse lab model make", 1, (VOCABULARY, CALIBRATION, METRICS))


def save(folder: Path, model: DualEncoder, name: str) -> None:
    """Write a checkpoint that is not calibrated, each file whole or not at all."""
    architecture = model.architecture
    config = {
        "format": KIND.format,
        "kind": KIND.name,
        "name": name,
        "model": asdict(model.config),
        "architecture": architecture.model,
        "preprocessing": asdict(architecture.preprocessing),
    }
    others = {
        VOCABULARY: architecture.tokenizer.to_bytes(),
        CALIBRATION: json.dumps(Calibrations().to_json()).encode(),
        METRICS: b"{}",
    }
    KIND.save(folder, config, model.state_dict(), others)


def load(folder: Path, config: Mapping[str, Any], *, with_pictures: bool = True) -> DualEncoder:
    """Read the model of a folder whose config.json is given, with or without its pictures' side.

    Raises:
        CheckpointError: its library is missing, or the weights are others.
    """
    try:
        from hasse.models.encoders.registry import require_library

        require_library(config["model"]["encoder"])
    except BackboneError as error:
        raise CheckpointError(f"{folder}: {error}") from error
    from hasse.models.dual_encoder import DualEncoder
    from hasse.models.encoders.libraries.open_clip import Architecture
    from hasse.models.encoders.libraries.tokenizer import Tokenizer

    architecture = Architecture(
        config["architecture"],
        Preprocessing(**config["preprocessing"]),
        Tokenizer.from_bytes((folder / VOCABULARY).read_bytes()),
    )
    model = DualEncoder.build(config["model"], architecture)
    with weights(folder) as found:
        model.load_state_dict(found)
    if not with_pictures:
        del model.images
    return model
