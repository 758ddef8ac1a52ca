"""A trained model on disk: a folder of six files, none of which can run code.

    model.safetensors   weights of both encoders, the backbone included unless a package that is
                        installed has them
    config.json         `ModelConfig`, the preprocessing of pictures, and the fingerprint of the
                        network whose features it learned from, which may be rounded here
    vocabulary.json     the words
    calibration.json    what violations mean, measured on the validation split
    metrics.json        how it was trained and what it measured
    SHA256SUMS          the checksums of all

The fingerprint of a checkpoint covers the first three: two folders with one fingerprint encode
alike, so an index stores it and refuses any other model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.checkpoints.model_folder import (
    CONFIG,
    UNNAMED,
    WEIGHTS,
    CheckpointError,
    ModelKind,
    read_sums,
    weights,
)
from models.checkpoints.weight_quantization import WeightDtype, quantize
from models.datasets import Dataset
from models.encoders.names import full_name
from models.encoders.registry import is_installed
from models.evaluation.calibration import Calibrations
from models.images.preprocessing import Preprocessing
from models.model import ModelConfig, OrderEmbedding
from models.vocabulary import Vocabulary

VOCABULARY, CALIBRATION, METRICS = "vocabulary.json", "calibration.json", "metrics.json"
KIND = ModelKind(UNNAMED, "hasse train", 2, (VOCABULARY, CALIBRATION, METRICS))
_IMAGE_ENCODER, _BACKBONE = "images.", "images.backbone."  # prefixes of their tensors
# Names in the model, and in model.safetensors where they differ.
_FILE_NAMES = (
    ("hubness.inverse_temperature", "crowd.sharpness"),
    ("hubness.", "crowd."),
    ("length_head.", "extent."),
)
PRETRAINED = Path(__file__).parents[1] / "pretrained"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded model and what is known of it."""

    model: OrderEmbedding
    name: str
    fingerprint: str
    calibration: Calibrations
    metrics: Mapping[str, Any]
    folder: Path

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model learned."""
        return self.model.vocabulary


def pretrained(name: str = "scenes") -> Path:
    """Return the folder of a checkpoint that comes with Hasse.

    Raises:
        CheckpointError: there is none of that name.
    """
    folder = PRETRAINED / name
    if not (folder / CONFIG).is_file():
        known = sorted(path.parent.name for path in PRETRAINED.glob(f"*/{CONFIG}"))
        raise CheckpointError(
            f"no built-in model is called '{name}'; there are: {', '.join(known) or 'none'}"
        )
    return folder


def find(named: Path) -> Path:
    """Return the folder of a checkpoint: a folder's own, or of the name of a built-in one."""
    built_in = PRETRAINED / named.name
    by_name = len(named.parts) == 1 and not named.exists() and built_in.is_dir()
    return built_in if by_name else named


def remembered(name: str, fingerprint: str, folder: str) -> Path:
    """Return the folder of a checkpoint that an index remembers.

    A built-in one is recognized by name and fingerprint, wherever Hasse is installed now.

    Raises:
        CheckpointError: it is not built in, and no folder was recorded.
    """
    built_in = PRETRAINED / Path(name).name
    sums = read_sums(built_in)
    if sums is not None and _fingerprint(sums) == fingerprint:
        return built_in
    if not folder:
        raise CheckpointError(
            f"the index does not say where its model '{name}' is: name it with --model"
        )
    return Path(folder)


def find_or_default(named: Path | None, dataset: Dataset) -> Path:
    """Return what `find` does, or, without a name, the built-in checkpoint that suits the pictures.

    It is `scenes` for drawn scenes, whose meaning is known, and `photographs` for all others.
    """
    if named is not None:
        return find(named)
    drawn = any(image.meaning is not None for image in dataset.images)
    return pretrained("scenes" if drawn else "photographs")


def stored(model: OrderEmbedding) -> dict[str, Tensor]:
    """Return the tensors that a checkpoint holds: all but those that an installed package has."""
    tensors = model.state_dict()
    if not is_installed(model.images.backbone):
        return tensors
    return {key: value for key, value in tensors.items() if not key.startswith(_BACKBONE)}


def save(
    folder: Path,
    model: OrderEmbedding,
    name: str,
    metrics: Mapping[str, Any],
    calibration: Calibrations | None = None,
    dtype: WeightDtype = "float32",
) -> None:
    """Write a checkpoint, each file whole or not at all.

    `dtype` is how matrices are stored; see `models.checkpoints.weight_quantization`.
    """
    backbone = model.images.backbone
    config = {
        "format": KIND.format,
        "name": name,
        "model": asdict(model.config),
        "preprocessing": asdict(model.preprocessing),
        "network": backbone.fingerprint() if is_installed(backbone) else backbone.origin,
    }
    calibration = calibration or Calibrations()
    others = {
        VOCABULARY: model.vocabulary.to_bytes(),
        CALIBRATION: json.dumps(calibration.to_json()).encode(),
        METRICS: json.dumps(metrics, indent=2).encode(),
    }
    tensors = {_in_file(key): value for key, value in stored(model).items()}
    KIND.save(folder, config, quantize(tensors, dtype), others)


def load(
    folder: Path,
    device: str | torch.device = "cpu",
    *,
    to_learn: bool = False,
    with_pictures: bool = True,
) -> Checkpoint:
    """Read a checkpoint, ready to encode (evaluation mode).

    `OrderEmbedding.for_inference` prepares it, unless it is `to_learn` further, be saved again or
    teach. To encode captions alone, leave the image encoder out: it is most of what there is to
    load.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format, and named; or a
            training wrote the model anew meanwhile.
    """
    with KIND.open(folder) as (config, sums):
        model = OrderEmbedding(
            ModelConfig(**config["model"] | {"backbone": full_name(config["model"]["backbone"])}),
            Vocabulary.load(folder / VOCABULARY),
            Preprocessing(**config["preprocessing"]),
            with_pictures=with_pictures,
        )
        name = str(config["name"])
        calibration = Calibrations.from_json(json.loads((folder / CALIBRATION).read_bytes()))
        metrics = json.loads((folder / METRICS).read_bytes())
        with weights(folder) as found:
            wanted = {_in_file(key): key for key in model.state_dict()}
            state = {
                wanted.get(key, key): value
                for key, value in found.items()
                if with_pictures or not key.startswith(_IMAGE_ENCODER)
            }
            if with_pictures:
                network = config.get("network")
                if not any(key.startswith(_BACKBONE) for key in state):
                    state |= _installed_weights(model, network, folder)
                model.images.backbone.origin = network
            model.load_state_dict(state)
    model = model.to(device).eval()
    if not to_learn:
        model.for_inference()
    return Checkpoint(model, name, _fingerprint(sums), calibration, metrics, folder)


def _installed_weights(
    model: OrderEmbedding, network: str | None, folder: Path
) -> dict[str, Tensor]:
    """Return the tensors that a checkpoint leaves to an installed package."""
    backbone = model.images.backbone
    if not is_installed(backbone):
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


def _in_file(key: str) -> str:
    """Return the name that a tensor of the model has in model.safetensors."""
    for name, in_file in _FILE_NAMES:
        key = key.replace(name, in_file)
    return key


def _fingerprint(sums: Mapping[str, str]) -> str:
    """Return the SHA-256, in hexadecimal, over those of the files that encoding depends on."""
    digest = hashlib.sha256()
    for name in (WEIGHTS, CONFIG, VOCABULARY):
        digest.update(bytes.fromhex(sums[name]))
    return digest.hexdigest()
