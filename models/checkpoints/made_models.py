"""Models that have a name: made of pretrained encoders without training, listed and removed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hasse.models.checkpoints import checkpoint, towers
from hasse.models.checkpoints.model_folder import CONFIG, CheckpointError
from hasse.models.encoders.names import full_name
from hasse.models.encoders.registry import build_encoder_pair
from hasse.models.evaluation.calibration import Calibrations
from hasse.models.files import lock_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a model without loading it.

    Attributes:
        name: by which commands find it.
        encoder: of its pictures, and of its texts where it is pretrained.
        dimension: coordinates of a point.
        megabytes: on disk.
        calibrated: whether it says how likely a caption is to be true.
        built_in: whether it comes with Hasse.
    """

    name: str
    encoder: str
    score: str
    dimension: int
    megabytes: float
    calibrated: bool
    built_in: bool
    folder: str

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)


def make(name: str, encoder: str, weights: Path) -> Path:
    """Make a model of a pretrained encoder of pictures and texts, and return its folder.

    Raises:
        CheckpointError: the name cannot be had.
        BackboneError: there is no such encoder, or the weights are others.
    """
    folder = require_free(name)
    built = build_encoder_pair(encoder, weights)
    from hasse.models.dual_encoder import (  # needs open_clip, which is there by now
        DualEncoder,
        DualEncoderConfig,
    )

    config = DualEncoderConfig(encoder, _sum_of(weights), built.images.feature_dimension)
    model = DualEncoder(config, built)
    model.images.require_side(model.preprocessing.crop)
    with lock_folder(folder):
        require_free(name)
        towers.save(folder, model, name)
    return folder


def require_free(name: str) -> Path:
    """Return the folder of a model to be made.

    Raises:
        CheckpointError: a model has the name, or none can.
    """
    if not _NAME.fullmatch(name):
        raise CheckpointError(
            f"'{name}' cannot be the name of a model: use letters, digits, dots, dashes and "
            f"underscores"
        )
    folder = checkpoint.made_models() / name
    if (checkpoint.PRETRAINED / name).is_dir():
        raise CheckpointError(f"'{name}' is the name of a built-in model: choose another")
    if (folder / CONFIG).is_file():
        raise CheckpointError(
            f"there is a model '{name}' in {folder}: choose another name, or remove it first by "
            f"'hasse lab model remove {name}'"
        )
    return folder


def remove(name: str) -> Path:
    """Delete a model that was made, and return the folder that it was in.

    Raises:
        CheckpointError: there is none of that name, or it comes with Hasse.
    """
    if (checkpoint.PRETRAINED / name).is_dir():
        raise CheckpointError(f"'{name}' comes with Hasse and stays")
    folder = checkpoint.made_models() / name
    if not _NAME.fullmatch(name) or not (folder / CONFIG).is_file():
        made = [each.name for each in described_models() if not each.built_in]
        raise CheckpointError(
            f"no model '{name}' was made here; there is {', '.join(made) or 'none'}"
        )
    (folder / CONFIG).unlink()  # without it, a folder holds no model
    shutil.rmtree(folder)
    return folder


def described_models() -> Iterator[Description]:
    """Describe the built-in models and those that were made, by name."""
    for home in (checkpoint.PRETRAINED, checkpoint.made_models()):
        for path in sorted(home.glob(f"*/{CONFIG}")):
            with suppress(CheckpointError):
                yield describe(path.parent)


def describe(folder: Path) -> Description:
    """Describe the model of a folder.

    Raises:
        CheckpointError: it holds none for retrieval, or it is damaged.
    """
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        calibration = Calibrations.from_json(
            json.loads((folder / checkpoint.CALIBRATION).read_bytes())
        )
        model = config["model"]
        return Description(
            str(config["name"]),
            model["encoder"] if "encoder" in model else full_name(model["backbone"]),
            str(model["score"]),
            int(model["dimension"]),
            sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6,
            calibration.image is not None,
            folder.parent == checkpoint.PRETRAINED,
            str(folder),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} holds no model for retrieval, or a damaged one: name another folder, or a "
            f"model of 'hasse lab model list'"
        ) from error


def _sum_of(weights: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder in the order of their names."""
    digest = hashlib.sha256()
    files = sorted(weights.iterdir()) if weights.is_dir() else [weights]
    for path in files:
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
