"""A trained model on disk: a folder of files, none of which can run code.

    model.safetensors   weights of both encoders; without the backbone if an installed package
                        has its weights
    pictures.onnx       the backbone, which reads its weights from model.safetensors; missing if an
                        installed package has them, and in folders of earlier versions
    config.json         `ModelConfig`, the preprocessing of pictures, and the fingerprint of the
                        network that made the training's features (its weights may be rounded here)
    vocabulary.json     the words
    calibration.json    probabilities by violation, measured on the validation split
    metrics.json        options, history and metrics of the training
    SHA256SUMS          the checksums of all files

A model of two published encoders has the files of `dual_encoder_folder.py`.

A grounded model has the trained model in its folder `base`. Its weights are the numbers of the
learned coordinates and the sets of classes. Its vocabulary.json is the table of demands.

The fingerprint of a checkpoint covers model.safetensors, config.json and vocabulary.json, or the
files of both encoders. Models with the same fingerprint encode alike, so an index stores it and
refuses any other model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from hasse.models.calibration import Calibrations, Judge
from hasse.models.checkpoints import dual_encoder_folder, trained_model
from hasse.models.checkpoints.dual_encoder_folder import DUAL_KIND, ENCODING_FILES
from hasse.models.checkpoints.model_folder import (
    CALIBRATION,
    CONFIG,
    METRICS,
    UNNAMED,
    VOCABULARY,
    WEIGHTS,
    CheckpointError,
    ModelKind,
    kind_of,
    read_sums,
)
from hasse.models.checkpoints.trained_model import PICTURES
from hasse.models.checkpoints.weights import weights
from hasse.models.embedding_model import EmbeddingModel, Words
from hasse.models.networks.network import NetworkError, Runtime

_OTHER_FILES = (VOCABULARY, CALIBRATION, METRICS)
KIND = ModelKind(UNNAMED, "hasse lab train", 2, _OTHER_FILES, optional=(PICTURES,))
GROUNDED_KIND = ModelKind("grounded", "hasse study photographs ground", 1, _OTHER_FILES)
_KINDS = {kind.name: kind for kind in (KIND, DUAL_KIND, GROUNDED_KIND)}
BASE = "base"  # folder of the trained model of a grounded one


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded model.

    Attributes:
        base: the trained model below a grounded one, else None.
    """

    model: EmbeddingModel
    name: str
    fingerprint: str
    calibration: Calibrations
    metrics: Mapping[str, Any]
    folder: Path
    base: Checkpoint | None = None

    def judge(self, premise: Literal["image", "caption"]) -> Judge | None:
        """Return what judges texts by premises of a kind; None where that was not calibrated."""
        known = self.calibration.image if premise == "image" else self.calibration.caption
        return None if known is None else Judge(self.model, known)

    @property
    def vocabulary(self) -> Words:
        """The model's words."""
        return self.model.vocabulary


# Loads a trained model of a folder, by its config.json and the checksums of its files.
LoadTrained = Callable[[Path, Mapping[str, Any], Mapping[str, str]], EmbeddingModel]


def load(
    folder: Path,
    device: str = "cpu",
    *,
    with_pictures: bool = True,
    one_off: bool = False,
    runtime: Runtime = "auto",
) -> Checkpoint:
    """Read a checkpoint, ready to encode.

    Args:
        folder: the checkpoint.
        device: encodes pictures; see `open_network`.
        with_pictures: whether the model encodes pictures, else captions only.
        one_off: for a process that encodes a few captions and pictures: without numba.
        runtime: encodes pictures.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format (the message
            names it); or a training wrote the model at the same time; or the model has no network
            of pictures.
    """
    trained = partial(
        trained_model.load,
        device=device,
        with_pictures=with_pictures,
        one_off=one_off,
        runtime=runtime,
    )
    return load_by(
        cast(LoadTrained, trained), folder, device, with_pictures=with_pictures, runtime=runtime
    )


def load_by(
    trained: LoadTrained,
    folder: Path,
    device: str,
    *,
    with_pictures: bool = True,
    runtime: Runtime = "auto",
) -> Checkpoint:
    """Read a checkpoint of any kind, whose trained model is loaded by a function; see `load`."""
    kind = _KINDS.get(kind_of(folder) or UNNAMED, KIND)
    base = None
    with kind.open(folder) as (config, sums):
        if kind is KIND:
            model = trained(folder, config, sums)
        elif kind is GROUNDED_KIND:
            base = load_by(trained, folder / BASE, device, with_pictures=with_pictures)
            model = _grounded(folder, config, base, with_pictures=with_pictures)
        else:
            model = dual_encoder_folder.load(
                folder, config, sums, device, with_pictures=with_pictures, runtime=runtime
            )
        name = str(config["name"])
        calibration = Calibrations.from_json(json.loads((folder / CALIBRATION).read_bytes()))
        metrics = json.loads((folder / METRICS).read_bytes())
    fingerprint = config.get("fingerprint") or fingerprint_of(sums)
    return Checkpoint(model, name, fingerprint, calibration, metrics, folder, base)


def reload_calibration(loaded: Checkpoint) -> Checkpoint:
    """Return a model with the current calibration of its folder.

    Raises:
        CheckpointError: it cannot be read, or differs from its checksum.
    """
    path = loaded.folder / CALIBRATION
    try:
        content = path.read_bytes()
        calibrations = Calibrations.from_json(json.loads(content))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): restore it") from error
    if (read_sums(loaded.folder) or {}).get(CALIBRATION) != hashlib.sha256(content).hexdigest():
        raise CheckpointError(f"{path} is not what its checksum says: restore it")
    return replace(loaded, calibration=calibrations)


def write_calibration(folder: Path, calibration: Calibrations) -> None:
    """Write the calibration of a model; its fingerprint stays."""
    _KINDS.get(kind_of(folder) or UNNAMED, KIND).replace(
        folder, CALIBRATION, json.dumps(calibration.to_json()).encode()
    )


def _grounded(
    folder: Path, config: Mapping[str, Any], base: Checkpoint, *, with_pictures: bool
) -> EmbeddingModel:
    """Read a grounded model on top of its trained model.

    Raises:
        CheckpointError: the trained model is another one, or its network has no known classes.
    """
    from hasse.models.grounding.demands import Demands
    from hasse.models.grounding.grounded_texts import GroundedTexts, TrainedModel

    if base.fingerprint != config["base"]:
        raise CheckpointError(
            f"{base.folder} is not the model that {folder} was grounded on: restore both folders"
        )
    document = json.loads((folder / VOCABULARY).read_bytes())
    trained = cast(TrainedModel, base.model)
    demands = Demands.from_json(document, trained.vocabulary.words)
    try:
        with weights(folder) as arrays:
            if not with_pictures:
                return cast(EmbeddingModel, GroundedTexts(trained, arrays["kept"], demands))
            from hasse.models.grounding.grounded_model import GroundedModel
            from hasse.models.grounding.taught import TaughtWords

            parts = arrays["kept"], arrays["sets"]  # coordinates, classes
            taught = None
            if "taught.weight" in arrays:
                names = ("taught.weight", "taught.bias", "taught.kinds")
                taught = TaughtWords(*(arrays[name] for name in names))
            classifier = trained.backbone.classifier()
            return GroundedModel(trained, *parts, demands, classifier, taught)
    except NetworkError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def fingerprint_of(sums: Mapping[str, str]) -> str:
    """Return the SHA-256, in hexadecimal, of the checksums of the files that encoding reads."""
    digest = hashlib.sha256()
    for name in (WEIGHTS, CONFIG, VOCABULARY) if WEIGHTS in sums else ENCODING_FILES:
        if name in sums or name not in DUAL_KIND.optional:
            digest.update(bytes.fromhex(sums[name]))
    return digest.hexdigest()
