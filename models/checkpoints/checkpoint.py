"""A trained model on disk: a folder of six files, none of which can run code.

    model.safetensors   weights of both encoders; without the backbone if an installed package
                        has its weights
    config.json         `ModelConfig`, the preprocessing of pictures, and the fingerprint of the
                        network that made the training's features (its weights may be rounded here)
    vocabulary.json     the words
    calibration.json    probabilities by violation, measured on the validation split
    metrics.json        options, history and metrics of the training
    SHA256SUMS          the checksums of all files

A model of two published encoders has the files of `dual_encoder_folder.py`.

A grounded model has the trained model in its folder `base`. Its weights are the numbers of the
learned coordinates and the sets of classes. Its vocabulary.json is the table of demands.

The fingerprint of a checkpoint covers the first three files, or those of both encoders. Models with
the same fingerprint encode alike, so an index stores it and refuses any other model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import dual_encoder_folder, trained_model
from hasse.models.checkpoints.dual_encoder_folder import DUAL_KIND, ENCODING_FILES, PICTURES
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
from hasse.models.checkpoints.weights import WeightDtype, quantize, weights
from hasse.models.embedding_model import EmbeddingModel, Words
from hasse.models.encoders.model_config import without_options_of_studies
from hasse.models.encoders.names import Runtime
from hasse.models.errors import BackboneError
from hasse.models.picture_model import PictureModel
from hasse.models.text_model import TextModel

if TYPE_CHECKING:
    import torch

    from hasse.lab.encoders.order_embedding import OrderEmbedding

_OTHER_FILES = (VOCABULARY, CALIBRATION, METRICS)
KIND = ModelKind(UNNAMED, "hasse lab train", 2, _OTHER_FILES)
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

    @property
    def vocabulary(self) -> Words:
        """The model's words."""
        return self.model.vocabulary

    @property
    def order_embedding(self) -> OrderEmbedding:
        """The model trained by Hasse: this one, or the one below a grounded model.

        Raises:
            CheckpointError: its encoders are those of another library.
        """
        from hasse.lab.encoders.order_embedding import OrderEmbedding

        if self.base is not None:
            return self.base.order_embedding
        if not isinstance(self.model, OrderEmbedding):
            raise CheckpointError(
                f"{self.folder} has the encoders of another library, which cannot be trained or "
                f"taught by: name a model that 'hasse lab train' wrote"
            )
        return self.model


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
    from hasse.lab.encoders.registry import is_installed

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
    KIND.save(folder, config, quantize(trained_model.tensors_to_store(model), dtype), other_files)


def load(
    folder: Path,
    device: str | torch.device = "cpu",
    *,
    to_learn: bool = False,
    with_pictures: bool = True,
    one_off: bool = False,
    runtime: Runtime = "float32",
) -> Checkpoint:
    """Read a checkpoint, ready to encode (evaluation mode).

    Args:
        folder: the checkpoint.
        device: torch's name of a device.
        to_learn: for further training, for saving again, or for a teacher. Otherwise
            `OrderEmbedding.for_inference` prepares the model.
        with_pictures: whether the model encodes pictures, else captions only. A model that Hasse
            trained with a GRU encodes captions without torch, and pictures too where OpenVINO
            runs their network.
        one_off: for a process that encodes a few captions and pictures: without numba.
        runtime: encodes pictures.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format (the message
            names it); or a training wrote the model at the same time; or the model was trained on
            captions alone and has no image encoder.
    """
    kind = _KINDS.get(kind_of(folder) or UNNAMED, KIND)
    base = None
    with kind.open(folder) as (config, sums):
        if kind is KIND:
            model = trained_model.load(
                folder,
                config,
                fingerprint_of(sums),
                device,
                to_learn=to_learn,
                with_pictures=with_pictures,
                one_off=one_off,
                runtime=runtime,
            )
        elif kind is GROUNDED_KIND:
            base = load(
                folder / BASE,
                device,
                to_learn=to_learn,
                with_pictures=with_pictures,
                one_off=one_off,
                runtime=runtime,
            )
            model = _grounded(folder, config, base, with_pictures=with_pictures)
        else:
            model = dual_encoder_folder.load(
                folder,
                config,
                sums,
                str(device),
                with_pictures=with_pictures,
                runtime=runtime if runtime in {"auto", "openvino"} else "onnxruntime",
            )
        name = str(config["name"])
        calibration = Calibrations.from_json(json.loads((folder / CALIBRATION).read_bytes()))
        metrics = json.loads((folder / METRICS).read_bytes())
    calibration = calibration.with_traits(model.traits)
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
    return replace(loaded, calibration=calibrations.with_traits(loaded.model.traits))


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
        CheckpointError: the trained model is another one, or its network has no classes.
    """
    from hasse.models.grounding.demands import Demands
    from hasse.models.grounding.grounded_texts import GroundedTexts

    if base.fingerprint != config["base"]:
        raise CheckpointError(
            f"{base.folder} is not the model that {folder} was grounded on: restore both folders"
        )
    document = json.loads((folder / VOCABULARY).read_bytes())
    trained = cast("OrderEmbedding | TextModel", base.model)
    demands = Demands.from_json(document, trained.vocabulary.words)
    try:
        with weights(folder) as arrays:
            if not with_pictures:
                return cast(EmbeddingModel, GroundedTexts(trained, arrays["kept"], demands))
            from hasse.models.grounding.evidence import classifier_of
            from hasse.models.grounding.grounded_model import GroundedModel

            if isinstance(trained, PictureModel):
                classifier = trained.backbone.exported.classifier
            else:
                classifier = classifier_of(trained.config.backbone)
            parts = arrays["kept"], arrays["sets"]  # coordinates, classes
            return GroundedModel(cast("OrderEmbedding", trained), *parts, demands, classifier)
    except BackboneError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def fingerprint_of(sums: Mapping[str, str]) -> str:
    """Return the SHA-256, in hexadecimal, of the checksums of the files that encoding reads."""
    digest = hashlib.sha256()
    for name in ENCODING_FILES if PICTURES in sums else (WEIGHTS, CONFIG, VOCABULARY):
        if name in sums or name not in DUAL_KIND.optional:
            digest.update(bytes.fromhex(sums[name]))
    return digest.hexdigest()
