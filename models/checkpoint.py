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
from safetensors import SafetensorError
from safetensors.torch import load_file

from models.calibration import Calibrations
from models.datasets import Dataset
from models.files import write_weights, write_whole
from models.model import ModelConfig, OrderEmbedding
from models.pictures import Preprocessing
from models.stored import StoredDtype, from_stored, to_stored
from models.vocabulary import Vocabulary

WEIGHTS, CONFIG, VOCABULARY, CALIBRATION, METRICS = (
    "model.safetensors",
    "config.json",
    "vocabulary.json",
    "calibration.json",
    "metrics.json",
)
FORMAT = 1
PRETRAINED = Path(__file__).parent / "pretrained"


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the message says why and what to do."""


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


def find(named: Path | None, dataset: Dataset) -> Path:
    """Return the folder of a checkpoint: a folder's own, or of the name of a built-in one.

    Without a name it is the built-in one that suits the pictures: `scenes` for drawn scenes,
    whose meaning is known, and `photographs` for all others.
    """
    if named is None:
        drawn = any(image.meaning is not None for image in dataset.images)
        return pretrained("scenes" if drawn else "photographs")
    built_in = PRETRAINED / named.name
    by_name = len(named.parts) == 1 and not named.exists() and built_in.is_dir()
    return built_in if by_name else named


def save(
    folder: Path,
    model: OrderEmbedding,
    name: str,
    metrics: Mapping[str, Any],
    calibration: Calibrations | None = None,
    dtype: StoredDtype = "float32",
) -> None:
    """Write a checkpoint, each file whole or not at all, the weights last.

    `dtype` is how matrices are stored; see `models.stored`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "name": name,
        "model": asdict(model.config),
        "preprocessing": asdict(model.preprocessing),
        "network": model.images.backbone.origin,
    }
    write_whole(folder / CONFIG, json.dumps(config, indent=2).encode())
    calibration = calibration or Calibrations()
    write_whole(folder / CALIBRATION, json.dumps(calibration.to_json()).encode())
    write_whole(folder / METRICS, json.dumps(metrics, indent=2).encode())
    write_whole(folder / VOCABULARY, model.vocabulary.to_bytes())
    write_weights(folder / WEIGHTS, to_stored(model.state_dict(), dtype))


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
        CheckpointError: a file is missing, damaged, or of another format; it is named.
    """
    for file_name in (CONFIG, VOCABULARY, WEIGHTS):
        if not (folder / file_name).is_file():
            raise CheckpointError(
                f"{folder} is not a checkpoint: it has no {file_name}; "
                f"train one with 'hasse train', or name another folder with --model"
            )
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if "kind" in config:  # of those that other commands train; this one has none
            raise CheckpointError(
                f"{folder} holds a model of {config['kind']}, which compares no pictures: name a "
                f"folder that 'hasse train' wrote"
            )
        if config["format"] != FORMAT:
            raise CheckpointError(
                f"{folder / CONFIG} has format {config['format']}; this version reads {FORMAT}: "
                f"train the model again or use the version that made it"
            )
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
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} is damaged: {CONFIG}, {VOCABULARY}, {CALIBRATION} or {METRICS} cannot be "
            f"read ({error}); restore it or train the model again"
        ) from error
    try:
        weights = from_stored(load_file(folder / WEIGHTS))
        # What is not a number is no worse than anything, and would be measured as perfect.
        spoiled = next((key for key, value in weights.items() if not value.isfinite().all()), None)
        if spoiled is not None:
            raise CheckpointError(
                f"{folder / WEIGHTS} has weights that are not finite numbers ({spoiled}): restore "
                f"it or train the model again, at a lower --learning-rate"
            )
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{folder / WEIGHTS} does not hold the weights of {CONFIG} ({reason}); "
            f"restore it or train the model again"
        ) from error
    model = model.to(device).eval()
    if not to_learn:
        model.for_inference()
    return Checkpoint(model, name, fingerprint(folder), calibration, metrics, folder)


def _read(path: Path) -> dict[str, Any]:
    """Read a file that a checkpoint may do without."""
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found
