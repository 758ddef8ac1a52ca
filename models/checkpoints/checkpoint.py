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

from hasse.models.checkpoints import towers
from hasse.models.checkpoints.model_folder import (
    CONFIG,
    UNNAMED,
    WEIGHTS,
    CheckpointError,
    ModelKind,
    kind_of,
    read_sums,
    weights,
)
from hasse.models.checkpoints.weight_quantization import WeightDtype, quantize
from hasse.models.datasets import Dataset
from hasse.models.embedding_model import EmbeddingModel, Words
from hasse.models.encoders.names import full_name
from hasse.models.encoders.registry import is_installed
from hasse.models.evaluation.calibration import Calibrations
from hasse.models.home import home
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.model import ModelConfig, OrderEmbedding
from hasse.models.vocabulary import Vocabulary

KIND = ModelKind(UNNAMED, "hasse lab train", 2, towers.KIND.others)
VOCABULARY, CALIBRATION, METRICS = KIND.others
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

    model: EmbeddingModel
    name: str
    fingerprint: str
    calibration: Calibrations
    metrics: Mapping[str, Any]
    folder: Path

    @property
    def vocabulary(self) -> Words:
        """Tells which words the model knows."""
        return self.model.vocabulary

    @property
    def trained(self) -> OrderEmbedding:
        """The model, where Hasse trained it.

        Raises:
            CheckpointError: its encoders are another library's.
        """
        if not isinstance(self.model, OrderEmbedding):
            raise CheckpointError(
                f"{self.folder} has the encoders of another library, which cannot be trained or "
                f"taught by: name a model that 'hasse lab train' wrote"
            )
        return self.model


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
    """Return the folder of a checkpoint: its own, or that of a model with this name.

    Names are those of built-in models, and of models that 'hasse lab model make' made. A folder
    without a model does not hide one of the same name: a clone has a folder `scenes`.
    """
    if len(named.parts) == 1 and not (named / CONFIG).exists():
        for folder in (PRETRAINED / named.name, made_models() / named.name):
            if folder.is_dir():
                return folder
    return named


def made_models() -> Path:
    """Return the folder of the models that 'hasse lab model make' makes."""
    return home() / "models"


def remembered(name: str, fingerprint: str, folder: str) -> Path:
    """Return the folder of a checkpoint that an index remembers.

    A built-in one is recognized by name and fingerprint, wherever Hasse is installed now.

    Raises:
        CheckpointError: it is not built in, and no folder was recorded or none is there.
    """
    built_in = PRETRAINED / Path(name).name
    sums = read_sums(built_in)
    if sums is not None and _fingerprint(sums) == fingerprint:
        return built_in
    if not folder:
        raise CheckpointError(
            f"the index does not say where its model '{name}' is: name it with --model"
        )
    if not Path(folder).is_dir():
        raise CheckpointError(
            f"the index was made by the model '{name}', which is not in {folder} any more: name "
            f"where it is with --model, or make another with 'hasse lab model make' and bring the "
            f"index over to it with 'hasse index reencode'"
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
    if not model.config.has_images or not is_installed(model.images.backbone):
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

    `dtype` is how matrices are stored; see `hasse.models.checkpoints.weight_quantization`.
    """
    network = None
    if model.config.has_images:
        backbone = model.images.backbone
        network = backbone.fingerprint() if is_installed(backbone) else backbone.origin
    config = {
        "format": KIND.format,
        "name": name,
        "model": asdict(model.config),
        "preprocessing": asdict(model.preprocessing),
        "network": network,
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
            training wrote the model anew meanwhile; or the model has learned from captions alone
            and has no image encoder.
    """
    kind = towers.KIND if kind_of(folder) == towers.KIND.name else KIND
    with kind.open(folder) as (config, sums):
        if kind is KIND:
            model: EmbeddingModel = _trained(folder, config, with_pictures=with_pictures)
        else:
            model = towers.load(folder, config, with_pictures=with_pictures)
        name = str(config["name"])
        calibration = Calibrations.from_json(json.loads((folder / CALIBRATION).read_bytes()))
        metrics = json.loads((folder / METRICS).read_bytes())
    model.to(device)
    model.eval()
    if isinstance(model, OrderEmbedding) and not to_learn:
        model.for_inference()
    return Checkpoint(model, name, _fingerprint(sums), calibration, metrics, folder)


def calibrate(folder: Path, calibration: Calibrations) -> None:
    """Give a model another calibration; its fingerprint stays."""
    (towers.KIND if kind_of(folder) == towers.KIND.name else KIND).replace(
        folder, CALIBRATION, json.dumps(calibration.to_json()).encode()
    )


def _trained(folder: Path, config: Mapping[str, Any], *, with_pictures: bool) -> OrderEmbedding:
    shape = ModelConfig(**config["model"] | {"backbone": full_name(config["model"]["backbone"])})
    if with_pictures and not shape.has_images:
        raise CheckpointError(
            f"{folder} has learned from captions alone and knows no pictures: use it with 'hasse "
            "lab "
            f"embed' or 'hasse study transfer' on texts; for pictures, train with 'hasse study "
            f"grounding --recipe cap2both'"
        )
    model = OrderEmbedding(
        shape,
        Vocabulary.load(folder / VOCABULARY),
        Preprocessing(**config["preprocessing"]),
        with_pictures=with_pictures,
    )
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
    return model


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
