"""Checks the options of `hasse lab train`, and prepares its inputs.

The inputs are features of a frozen network, or pictures that the network learns from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.pixel_store import cache_pixels
from hasse.lab.pipelines.training_inputs import (
    Collections,
    Tell,
    from_features,
    from_pictures,
    learning_backbone,
)
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.distributed import World
from hasse.lab.training.inputs import TrainingInputs
from hasse.lab.training.lesson import Lesson
from hasse.lab.training.recipe import RECIPES, Recipe, find
from hasse.lab.training.run import TrainingError, require_same
from hasse.lab.training.state import read_notes
from hasse.lab.training.trainer import RetrievalTraining, identity
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.model_folder import require_no_model
from hasse.models.datasets import Dataset, DatasetError, load
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.service.plural import count

ProgressBars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]  # by label
Inputs = Callable[[Collections], TrainingInputs]
HELD_OUT = 10  # one image in ten is for validation in a dataset without splits


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The options of `hasse lab train`, and of a study that trains with lessons.

    Attributes:
        recipe: a file, or the name of a recipe; None for the default recipe.
        choices: options that replace the recipe's, by name. Values may be text.
        splits: the split to learn from, and the split to choose the best epoch by.
        weights: the file of the network's weights; with features, only if it has moved.
        start: a checkpoint that all learned weights start from.
        recipes: folders of recipes.
        lessons: the default options of the lessons that the recipe may name.
        model: the default options of the model.
        inputs: makes inputs that are neither features nor pictures.
    """

    dataset: Path
    out: Path
    recipe: str | None
    choices: Mapping[str, Any]
    splits: tuple[str, str] = ("train", "val")
    features: Path | None = None
    weights: Path | None = None
    start: Path | None = None
    workers: int | None = None
    limits: PictureLimits = DEFAULT_LIMITS
    recipes: Sequence[Path] = (RECIPES,)
    lessons: tuple[Any, ...] = ()
    model: ModelConfig = field(default_factory=ModelConfig)
    inputs: Inputs | None = None


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A checked request, with its dataset.

    Attributes:
        lessons: the options of the lessons after the recipe, in the order of the request.
    """

    request: TrainingRequest
    dataset: Dataset
    collections: Collections
    config: TrainingConfig
    lessons: tuple[Any, ...]
    start: checkpoint.Checkpoint | None

    @classmethod
    def of(cls, request: TrainingRequest, device: str) -> TrainingPlan:
        """Check a request.

        Raises:
            TrainingError: an option does not exist, or the options do not go together.
            DatasetError: there is no such dataset, or it has too few images.
            BackboneError: there is no such network.
        """
        default = "hasse" if request.features else "scenes"
        path = find(request.recipe or default, request.recipes)
        recipe = Recipe.read(path, request.lessons, request.model)
        recipe = replace(recipe, config=recipe.config.for_device(device))
        choices = dict(request.choices)
        # The pooling of a recipe is for its own network or features. Other networks may lack it.
        is_unsuited = "backbone" in choices or recipe.config.model.image_pooling == "regions"
        if is_unsuited and not request.features:
            choices.setdefault("image_pooling", "average")
        start = None
        if request.start is not None:
            start = learned_model.load(named_models.find(request.start), to_learn=True)
        dataset = load(request.dataset)
        collections = split_for_training(dataset, *request.splits)
        if "batch_size" not in choices:
            recipe = replace(recipe, config=recipe.config.for_images(len(collections[0])))
        recipe = recipe.with_options({"least_steps": 0, **choices})
        config = recipe.config
        if not (request.features or request.inputs):
            network = build_backbone(config.model.backbone).preprocessing
            preprocessing = replace(config.preprocessing, mean=network.mean, std=network.std)
            config = replace(config, preprocessing=preprocessing)
        return cls(request, dataset, collections, config, recipe.lessons, start)

    def prepare(
        self, world: World, bars: ProgressBars, tell: Tell, lessons: Sequence[Lesson] = ()
    ) -> RetrievalTraining:
        """Read the inputs; `tell` receives a line for each kind of picture that is left out.

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
        config = self.config
        if request.inputs is not None:
            inputs = request.inputs(collections)
        elif request.features:
            config, inputs = from_features(
                config, request.features, request.weights, collections, skipped=tell
            )
            require_chosen(Recipe(config, self.lessons), request.choices)
        else:
            weights = learning_backbone(config, request.weights)
            # Reading the pictures would replace those of another training.
            require_same(out, identity(config, collections, weights, self.start, lessons))
            with world.in_turn(), bars("reading pictures") as progress:
                cache = partial(
                    cache_pixels,
                    workers=request.workers,
                    limits=request.limits,
                    progress=progress,
                    skipped=tell,
                )
                inputs = from_pictures(config, weights, collections, out / "pictures", cache)
        return RetrievalTraining(config, out, replace(inputs, start=self.start), lessons, world)


def split_for_training(dataset: Dataset, train: str, val: str) -> Collections:
    """Return the images to learn from and the images to validate on.

    In a dataset without splits, every tenth image is for validation.

    Raises:
        DatasetError: a split does not exist, or there are too few images.
    """
    if not dataset.has_splits():
        held_out = held_out_images(dataset)
        held_out_ids = {image.id for image in held_out.images}
        training_images = tuple(image for image in dataset.images if image.id not in held_out_ids)
        return replace(dataset, images=training_images), held_out
    return dataset.split(train), dataset.split(val)


def held_out_images(dataset: Dataset) -> Dataset:
    """Return the images of a dataset without splits that trainings do not learn from.

    Raises:
        DatasetError: there are too few images.
    """
    images = dataset.images[HELD_OUT - 1 :: HELD_OUT]
    if not images:
        raise DatasetError(
            f"the dataset '{dataset.name}' has {count(len(dataset), 'image')} and no splits: "
            f"training needs at least {HELD_OUT}"
        )
    return replace(dataset, images=images)


def part_to_measure(dataset: Dataset, split: str | None, default: str, tell: Tell) -> Dataset:
    """Return a split, or the held-out images of a dataset without splits.

    Args:
        split: the name of a split; None for `default`, if the dataset has splits.

    Raises:
        DatasetError: there is no such split, or there are too few images.
    """
    if split is not None or dataset.has_splits():
        return dataset.split(default if split is None else split)
    part = held_out_images(dataset)
    tell(
        f"no splits: measuring the {count(len(part), 'picture')} of {len(dataset):,} that "
        f"'hasse lab train' does not learn from; --split '' measures all"
    )
    return part


def require_chosen(recipe: Recipe, choices: Mapping[str, Any]) -> None:
    """Check that features did not replace an option that was chosen.

    Raises:
        TrainingError: an option of the pictures or the network differs from that of the features.
    """
    for name, value in choices.items():
        try:
            is_same = recipe.with_options({name: value}) == recipe
        except TrainingError:  # the options were checked together: the features do not allow it
            is_same = False
        if not is_same:
            raise TrainingError(
                f"{name} cannot be '{value}': the features decide it; leave it out, or make others "
                f"with 'hasse lab features'"
            )
