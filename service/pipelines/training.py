"""A training as `hasse lab train` plans it: what it reads, and with which options.

It reads features of a frozen network, or pictures that the network learns from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.model_folder import require_no_model
from hasse.models.datasets import Dataset, DatasetError, load
from hasse.models.encoders.registry import build_backbone
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.model import ModelConfig
from hasse.models.training.config import TrainingConfig
from hasse.models.training.distributed import World
from hasse.models.training.presets import PRESETS
from hasse.models.training.run import TrainingError, require_same
from hasse.models.training.state import read_notes
from hasse.models.training.trainer import RetrievalTraining, identity
from hasse.service.pipelines.training_inputs import (
    Collections,
    Tell,
    from_captions,
    from_features,
    from_pictures,
    learning_backbone,
)
from hasse.service.plural import count
from hasse.studies.grounding.word_vectors import WordVectors
from hasse.studies.photographs.chains import read_chains
from hasse.studies.photographs.lesson import TextSources

ProgressBars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]  # by label
HELD_OUT = 10  # one image in so many, where a dataset has no split for validation


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What `hasse lab train` is asked to do.

    Attributes:
        preset: where all options start; None for the one that suits what is read.
        choices: options that differ from the preset's, by name.
        splits: to learn from, and to choose the best epoch by.
        weights: of the network; for features, if their file has moved.
        start: a checkpoint that learned weights start from.
        chains: texts from general to specific of validation images, to calibrate by.
        texts: features of texts to learn from.
        derived: texts from general to specific of training images, to learn from.
        classes: of the classifier of the network that made the features, to learn from.
        class_pictures: a dataset of pictures of those, and their features.
        word_vectors: a file of them, where they start, or stay if the preset has fixed ones.
    """

    dataset: Path
    out: Path
    preset: str | None
    choices: Mapping[str, Any]
    splits: tuple[str, str] = ("train", "val")
    features: Path | None = None
    weights: Path | None = None
    start: Path | None = None
    workers: int | None = None
    limits: PictureLimits = DEFAULT_LIMITS
    chains: Path | None = None
    texts: Path | None = None
    derived: Path | None = None
    classes: Path | None = None
    class_pictures: tuple[Path, Path] | None = None
    word_vectors: Path | None = None


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A request whose options go together, with the dataset it is about."""

    request: TrainingRequest
    dataset: Dataset
    collections: Collections
    config: TrainingConfig
    start: checkpoint.Checkpoint | None
    vectors: WordVectors | None = None

    @classmethod
    def of(cls, request: TrainingRequest, device: str) -> TrainingPlan:
        """Check a request.

        Raises:
            TrainingError: an option does not exist, or they do not go together.
            DatasetError: there is no such dataset, or it has too few images.
            BackboneError: there is no such network.
        """
        usual = "photographs" if request.texts else "hasse" if request.features else "scenes"
        preset = PRESETS[request.preset or usual].on(device)
        if request.texts and not request.features:
            raise TrainingError("texts are learned from beside features: name some with --features")
        if (request.derived or request.classes) and not request.texts:
            raise TrainingError(
                "derived texts and classes are learned from with the features of texts: name those "
                "with --texts"
            )
        choices = dict(request.choices)
        # A preset's pooling suits its own network or features; not every other network has it.
        other = "backbone" in choices or preset.config.model.image_pooling == "regions"
        if other and not request.features:
            choices.setdefault("image_pooling", "average")
        start = None
        if request.start is not None:
            start = checkpoint.load(checkpoint.find(request.start), to_learn=True)
        dataset = load(request.dataset)
        collections = split_for_training(dataset, *request.splits)
        suited = preset.config if "batch_size" in choices else preset.suited(len(collections[0]))
        config = with_choices(suited, choices)
        vectors = None
        if request.word_vectors is not None:
            vectors = WordVectors.read(request.word_vectors)
            size = vectors.vectors.shape[1]
            if "word_dimension" in choices and config.model.word_dimension != size:
                raise TrainingError(
                    f"the vectors in {request.word_vectors} have {size} numbers: leave "
                    f"word_dimension out"
                )
            config = replace(config, model=replace(config.model, word_dimension=size))
        require_inputs(config, request)
        if not request.features and config.model.has_images:
            own = build_backbone(config.model.backbone).preprocessing
            looks = replace(config.preprocessing, mean=own.mean, std=own.std)
            config = replace(config, preprocessing=looks)
        return cls(request, dataset, collections, config, start, vectors)

    def prepare(self, world: World, bars: ProgressBars, tell: Tell) -> RetrievalTraining:
        """Read what the training learns from; `tell` is given what is left out, line by line.

        Raises:
            TrainingError, CheckpointError: the folder holds another training, or a model.
            FeaturesError, BackboneError, DatasetError: features or pictures cannot be used.
        """
        request, collections, out = self.request, self.collections, self.request.out
        if read_notes(out) is None:
            require_no_model(out)
        if not self.dataset.has_splits():
            tell(
                f"no splits: {len(collections[1])} of {len(self.dataset)} pictures are not learned "
                f"from; the best epoch is chosen by them"
            )
        if not self.config.model.has_images:
            inputs = from_captions(self.config, collections)
        elif request.features:
            inputs = from_features(
                self.config, request.features, request.weights, collections, skipped=tell
            )
            require_chosen(inputs.config, request.choices)
        else:
            weights = learning_backbone(self.config, request.weights)
            # Those of another training would replace its pictures.
            same = identity(self.config, *collections, weights, self.start, vectors=self.vectors)
            require_same(out, same)
            with world.in_turn(), bars("reading pictures") as progress:
                inputs = from_pictures(
                    self.config,
                    weights,
                    collections,
                    out / "pictures",
                    workers=request.workers,
                    limits=request.limits,
                    progress=progress,
                    skipped=tell,
                )
        return RetrievalTraining(
            inputs.config,
            out.resolve().name,
            out,
            (collections[0], inputs.images[0]),
            (collections[1], inputs.images[1]),
            backbone_weights=inputs.backbone_weights,
            start=self.start,
            world=world,
            chains=() if request.chains is None else read_chains(request.chains),
            texts=None
            if request.texts is None
            else TextSources.read(
                request.texts,
                request.derived,
                request.classes,
                request.class_pictures,
                inputs.config.model.backbone,
            ),
            vectors=self.vectors,
        )


def split_for_training(dataset: Dataset, train: str, val: str) -> Collections:
    """Return the images to learn from and those to validate on.

    A dataset without splits lends every tenth image to validation.

    Raises:
        DatasetError: a split is not there, or there are too few images.
    """
    if not dataset.has_splits():
        held_out = dataset.images[HELD_OUT - 1 :: HELD_OUT]
        if not held_out:
            raise DatasetError(
                f"the dataset '{dataset.name}' has {count(len(dataset), 'image')} and no splits: "
                f"training needs at least {HELD_OUT}"
            )
        kept = {image.id for image in held_out}
        rest = tuple(image for image in dataset.images if image.id not in kept)
        return replace(dataset, images=rest), replace(dataset, images=held_out)
    return dataset.split(train), dataset.split(val)


def with_choices(config: TrainingConfig, choices: Mapping[str, Any]) -> TrainingConfig:
    """Return the configuration with some of its fields, or the model's or pictures', replaced.

    Values may be text, as a command line has them.

    Raises:
        TrainingError: there is no such field, or it does not take that value.
    """
    model, pictures = config.model, config.preprocessing
    parts: dict[type[Any], dict[str, Any]] = {
        TrainingConfig: {},
        ModelConfig: {},
        Preprocessing: {},
    }
    for name, value in choices.items():
        owner = next((part for part in parts if name in _simple_fields(part)), None)
        if owner is None:
            known = ", ".join(sorted(field for part in parts for field in _simple_fields(part)))
            raise TrainingError(f"there is no training option '{name}'; there are: {known}")
        try:
            parts[owner][name] = TypeAdapter(_simple_fields(owner)[name]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].lower()
            raise TrainingError(f"{name} cannot be '{value}': {reason}") from None
    try:
        return replace(
            config,
            **parts[TrainingConfig],
            model=replace(model, **parts[ModelConfig]),
            preprocessing=replace(pictures, **parts[Preprocessing]),
        )
    except ValueError as error:
        raise TrainingError(f"these options do not go together: {error}") from None


def require_inputs(config: TrainingConfig, request: TrainingRequest) -> None:
    """Refuse a request without what its configuration learns from, or with what it cannot use.

    Raises:
        TrainingError: it is named.
    """
    model = config.model
    if model.word_vectors == "fixed" and request.word_vectors is None:
        raise TrainingError("fixed word vectors come from a file: name one with --word-vectors")
    if request.word_vectors is not None and request.texts is not None:
        raise TrainingError("--texts has word vectors of its own: leave --word-vectors out")
    if model.image_map == "identity" and request.features is None:
        raise TrainingError("points of images are features here: name some with --features")
    if not model.has_images and (request.features or request.texts or request.chains):
        raise TrainingError(
            "this model learns from captions alone: leave --features, --texts and --chains out"
        )


def require_chosen(config: TrainingConfig, choices: Mapping[str, Any]) -> None:
    """Refuse choices that a configuration does not keep, because features decide them.

    Raises:
        TrainingError: one is of the pictures or the network that the features were made with.
    """
    for name, value in choices.items():
        try:
            kept = with_choices(config, {name: value}) == config
        except TrainingError:  # all choices go together, so it is the features it does not fit
            kept = False
        if not kept:
            raise TrainingError(
                f"{name} cannot be '{value}': the features decide it; leave it out, or make others "
                f"with 'hasse lab features'"
            )


def _simple_fields(owner: type[Any]) -> dict[str, Any]:
    """Return the fields that one value can set, with their types."""
    hints = get_type_hints(owner)
    nested = {"model", "preprocessing", "mean", "std"}
    return {one.name: hints[one.name] for one in fields(owner) if one.name not in nested}
