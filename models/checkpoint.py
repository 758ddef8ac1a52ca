"""A trained model on disk: a folder of five files, none of which can run code.

    model.safetensors   weights of both encoders, the backbone included
    config.json         `ModelConfig`, the preprocessing of pictures, and the fingerprint of the
                        network whose features it learned from, which may be rounded here
    vocabulary.json     the words
    calibration.json    what violations mean, measured on the validation split
    metrics.json        how it was trained and what it measured

The fingerprint of a checkpoint covers the first three: two folders with one fingerprint encode
alike, so an index remembers it and refuses any other model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from models.calibration import Calibrations
from models.datasets import Dataset
from models.files import write_weights, write_whole
from models.model import ModelConfig, OrderEmbedding
from models.model_folder import CONFIG, UNNAMED, WEIGHTS, CheckpointError, ModelKind, weights
from models.pictures import Preprocessing
from models.stored import StoredDtype, to_stored
from models.vocabulary import Vocabulary

VOCABULARY, CALIBRATION, METRICS = "vocabulary.json", "calibration.json", "metrics.json"
KIND = ModelKind(UNNAMED, "hasse train", 1, (VOCABULARY,), (CALIBRATION, METRICS))
PRETRAINED = Path(__file__).parent / "pretrained"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded model and what is known of it."""

    model: OrderEmbedding
    name: str
    fingerprint: str
    calibration: Calibrations
    metrics: Mapping[str, Any]
    folder: Path


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


def chosen(named: Path | None, dataset: Dataset) -> Path:
    """Return what `find` does, or, without a name, the built-in checkpoint that suits the pictures.

    It is `scenes` for drawn scenes, whose meaning is known, and `photographs` for all others.
    """
    if named is not None:
        return find(named)
    drawn = any(image.meaning is not None for image in dataset.images)
    return pretrained("scenes" if drawn else "photographs")


def save(
    folder: Path,
    model: OrderEmbedding,
    name: str,
    metrics: Mapping[str, Any],
    calibration: Calibrations | None = None,
    dtype: StoredDtype = "float32",
) -> None:
    """Write a checkpoint, each file whole or not at all.

    What needs most room is first, and last config.json: before a first one there is no model.
    `dtype` is how matrices are stored; see `models.stored`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": KIND.format,
        "name": name,
        "model": asdict(model.config),
        "preprocessing": asdict(model.preprocessing),
        "network": model.images.backbone.origin,
    }
    calibration = calibration or Calibrations()
    write_weights(folder / WEIGHTS, to_stored(model.state_dict(), dtype))
    write_whole(folder / VOCABULARY, model.vocabulary.to_bytes())
    write_whole(folder / CALIBRATION, json.dumps(calibration.to_json()).encode())
    write_whole(folder / METRICS, json.dumps(metrics, indent=2).encode())
    write_whole(folder / CONFIG, json.dumps(config, indent=2).encode())


def fingerprint(folder: Path) -> str:
    """Return the SHA-256, in hexadecimal, over the files that decide how a model encodes."""
    digest = hashlib.sha256()
    for file_name in (WEIGHTS, CONFIG, VOCABULARY):
        with (folder / file_name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def load(folder: Path, device: str | torch.device = "cpu", *, to_learn: bool = False) -> Checkpoint:
    """Read a checkpoint, ready to encode (evaluation mode).

    It is made so by `OrderEmbedding.for_inference`, unless the weights are `to_learn` on from, be
    saved again or teach.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format, and named; or a
            training wrote the model anew meanwhile.
    """
    with KIND.unchanged(folder):
        with KIND.described(folder) as config:
            model = OrderEmbedding(
                ModelConfig(**config["model"]),
                Vocabulary.load(folder / VOCABULARY),
                Preprocessing(**config["preprocessing"]),
            )
            model.images.backbone.origin = config.get("network")
            name = str(config["name"])
            known = _read(folder / CALIBRATION)
            calibration = Calibrations.from_json(known) if known else Calibrations()
            metrics = _read(folder / METRICS)
        with weights(folder) as found:
            model.load_state_dict(found)
        identity = fingerprint(folder)
    model = model.to(device).eval()
    if not to_learn:
        model.for_inference()
    return Checkpoint(model, name, identity, calibration, metrics, folder)


def _read(path: Path) -> dict[str, Any]:
    """Read a file that a checkpoint may do without."""
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found
