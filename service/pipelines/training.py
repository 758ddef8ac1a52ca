"""A training as `hasse train` plans it: what it reads, and with which options.

It reads features of a frozen network, or pictures that the network learns from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from models.checkpoints import checkpoint
from models.checkpoints.model_folder import require_no_model
from models.datasets import Dataset, DatasetError, load
from models.datasets.chains import read_chains
from models.encoders.image_encoder import ImagePooling
from models.encoders.registry import build_backbone
from models.files import write_atomically
from models.images.features import FeaturesError, FeatureStore
from models.images.limits import DEFAULT_LIMITS, PictureLimits
from models.images.pixel_store import cache_pixels
from models.images.preprocessing import Preprocessing
from models.model import ModelConfig
from models.training.config import TrainingConfig
from models.training.distributed import World
from models.training.inputs import FeatureInput, ImageInput, PixelInput
from models.training.presets import PRESETS
from models.training.run import TrainingError, require_same
from models.training.state import read_notes
from models.training.texts.lesson import TextSources
from models.training.trainer import RetrievalTraining, identity
from service.plural import count

Collections = tuple[Dataset, Dataset]  # to learn from, and to choose the best epoch by
ProgressBars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]  # by label
Tell = Callable[[str], None]
WEIGHTS_NOTE = "weights.txt"  # in a folder of features: the file of the network's weights
HELD_OUT = 10  # one image in so many, where a dataset has no split for validation


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What `hasse train` is asked to do.

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


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A request whose options go together, with the dataset it is about."""

    request: TrainingRequest
    dataset: Dataset
    collections: Collections
    config: TrainingConfig
    start: checkpoint.Checkpoint | None

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
        if not request.features:
            own = build_backbone(config.model.backbone).preprocessing
            looks = replace(config.preprocessing, mean=own.mean, std=own.std)
            config = replace(config, preprocessing=looks)
        return cls(request, dataset, collections, config, start)

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
        if request.features:
            inputs = from_features(
                self.config, request.features, request.weights, collections, skipped=tell
            )
            require_chosen(inputs.config, request.choices)
        else:
            weights = learning_backbone(self.config, request.weights)
            # Those of another training would replace its pictures.
            require_same(out, identity(self.config, *collections, weights, self.start))
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
        )


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """A configuration that fits what is read, and what is read.

    Attributes:
        config: with the backbone and the preprocessing of the features, where there are any.
        images: those to learn from, and those to validate on.
        backbone_weights: where the backbone starts; None for random weights.
    """

    config: TrainingConfig
    images: tuple[ImageInput, ImageInput]
    backbone_weights: dict[str, Tensor] | None


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
                f"with 'hasse features'"
            )


def _simple_fields(owner: type[Any]) -> dict[str, Any]:
    """Return the fields that one value can set, with their types."""
    hints = get_type_hints(owner)
    nested = {"model", "preprocessing", "mean", "std"}
    return {one.name: hints[one.name] for one in fields(owner) if one.name not in nested}


def note_weights(folder: Path, weights: Path) -> None:
    """Remember beside features which file the network's weights came from."""
    write_atomically(folder / WEIGHTS_NOTE, str(weights.resolve()).encode())


def from_features(
    config: TrainingConfig,
    folder: Path,
    weights: Path | None,
    collections: Collections,
    *,
    skipped: Tell = lambda line: None,
) -> TrainingInputs:
    """Prepare a training on cached features; the backbone and its weights are theirs.

    Parts of pictures are read where the configuration wants them and the features have them.

    Without `weights`, the file that `note_weights` remembers is read again. `skipped` is told in
    one line of captioned pictures that have no features.

    Raises:
        FeaturesError: they are not there, of other images, or were made with other weights.
        BackboneError: the weights cannot be read.
    """
    store = FeatureStore.open(folder)
    for collection in collections:
        store.require_names(collection.images)
    _tell_missing(store, collections, skipped)
    note = folder / WEIGHTS_NOTE
    if weights is None and note.is_file():
        weights = Path(note.read_text(encoding="utf-8"))
        if not weights.is_file():
            raise FeaturesError(
                f"the features in {folder} were made with {weights}, which is not there any more: "
                f"name that file with --weights, since the checkpoint holds what is in it"
            )
    regions = config.model.image_pooling == "regions" and store.maker.regions
    pooling: ImagePooling = "regions" if regions else "average"
    config = replace(
        config,
        model=replace(config.model, backbone=store.maker.backbone, image_pooling=pooling),
        preprocessing=store.maker.preprocessing,
    )
    backbone = build_backbone(store.maker.backbone, weights)
    if backbone.fingerprint() != store.maker.weights:
        other = f"other weights of {backbone.name} than {weights}"
        made = other if weights else f"weights of {backbone.name} that are not noted beside them"
        raise FeaturesError(
            f"the features in {folder} were made with {made}: name them with --weights, since the "
            f"checkpoint holds them, to encode new pictures with"
        )
    views = store.views(regions=regions)
    rows = FeatureInput(store.image_ids, views[:, 0], views if config.views else None)
    return TrainingInputs(config, (rows, rows), dict(backbone.state_dict()))


def _tell_missing(
    store: FeatureStore, collections: Collections, skipped: Callable[[str], None]
) -> None:
    known = set(store.image_ids.tolist())
    captioned = [image for one in collections for image in one.images if image.captions]
    missing = [image for image in captioned if image.id not in known]
    if missing:
        first = missing[0].subject
        skipped(
            f"pictures without features, left out: {len(missing):,} of {len(captioned):,}, the "
            f"first is {first}; 'hasse features' on this dataset makes those of new ones"
        )


def learning_backbone(config: TrainingConfig, weights: Path | None) -> dict[str, Tensor] | None:
    """Return where a network that learns from pictures begins, or None for random weights.

    Decoding the pictures takes long, so that it cannot learn from them is told before.

    Raises:
        BackboneError: there is no such network, its weights cannot be read, it has no grid where
            one is pooled, or it takes no pictures of this size.
    """
    network = build_backbone(config.model.backbone, weights)
    if config.model.image_pooling != "average":
        network.keep_grid()
    network.require_side(config.preprocessing.crop)
    return None if weights is None else dict(network.state_dict())


def from_pictures(
    config: TrainingConfig,
    backbone_weights: dict[str, Tensor] | None,
    collections: Collections,
    cache: Path,
    *,
    workers: int | None = None,
    limits: PictureLimits = DEFAULT_LIMITS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    skipped: Tell = lambda line: None,
) -> TrainingInputs:
    """Prepare a training on pictures, which are decoded once into `cache`; the backbone learns.

    Raises:
        DatasetError: no picture can be read.
    """
    looks = config.preprocessing
    training, validation = (
        PixelInput(
            cache_pixels(
                collection,
                looks,
                cache / f"{part}-{looks.resize}",
                workers=workers,
                limits=limits,
                progress=progress,
                skipped=skipped,
            ),
            # What is measured is the model as it will be used, in float32.
            bfloat16=config.precision == "bfloat16" and part == "train",
        )
        for part, collection in zip(("train", "val"), collections, strict=True)
    )
    return TrainingInputs(config, (training, validation), backbone_weights)
