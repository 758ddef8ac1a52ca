"""Makes the inputs of `hasse lab train` from features or pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.feature_store import FeaturesError, FeatureStore
from hasse.lab.features.pixel_store import PixelCache, cache_pixels
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.inputs import FeatureInput, PixelInput, TrainingInputs
from hasse.models.datasets import Dataset
from hasse.models.encoders.model_config import ImagePooling
from hasse.models.files import write_atomically
from hasse.models.images.preprocessing import Preprocessing

Collections = tuple[Dataset, Dataset]  # to learn from, and to choose the best epoch by
Tell = Callable[[str], None]  # prints a line
WEIGHTS_NOTE = "weights.txt"  # in a folder of features: the path of the network's weights


def note_weights(folder: Path, weights: Path) -> None:
    """Store the path of the network's weights beside the features."""
    write_atomically(folder / WEIGHTS_NOTE, str(weights.resolve()).encode())


def from_features(
    config: TrainingConfig,
    folder: Path,
    weights: Path | None,
    collections: Collections,
    *,
    skipped: Tell = lambda line: None,
) -> tuple[TrainingConfig, TrainingInputs]:
    """Prepare a training on cached features.

    The backbone, its weights and the preprocessing are those of the features. Features of regions
    are read if the configuration pools regions and the features have them.

    Without `weights`, the file that `note_weights` stored is read. `skipped` receives one line
    about captioned pictures without features.

    Raises:
        FeaturesError: there are no features, or they are of other images or other weights.
        BackboneError: the weights cannot be read.
    """
    store = FeatureStore.open(folder)
    for collection in collections:
        store.require_names(collection.images)
    _tell_missing(store, collections, skipped)
    note = folder / WEIGHTS_NOTE
    if weights is None and note.is_file():
        weights = Path(note.read_text(encoding="utf-8"))
        if not weights.exists():  # a file, or a folder of open_clip
            raise FeaturesError(
                f"the features in {folder} were made with {weights}, which is not there any more: "
                f"name that file with --weights, since the checkpoint holds what is in it"
            )
    regions = config.model.image_pooling == "regions" and store.maker.regions
    pooling: ImagePooling = "regions" if regions else "average"
    model = replace(config.model, backbone=store.maker.backbone, image_pooling=pooling)
    config = replace(config, model=model, preprocessing=store.maker.preprocessing)
    backbone = build_backbone(store.maker.backbone, weights)
    if backbone.fingerprint() != store.maker.weights:
        actual = f"weights of {backbone.name} that are not noted beside them"
        if weights:
            actual = f"other weights of {backbone.name} than {weights}"
        raise FeaturesError(
            f"the features in {folder} were made with {actual}: name them with --weights, since "
            f"the checkpoint holds them, to encode new pictures with"
        )
    views = store.views(regions=regions)
    rows = FeatureInput(store.image_ids, views[:, 0], views if config.views else None)
    training, validation = ((part, rows) for part in collections)
    return config, TrainingInputs(training, validation, dict(backbone.state_dict()))


def _tell_missing(
    store: FeatureStore, collections: Collections, skipped: Callable[[str], None]
) -> None:
    featured_ids = set(store.image_ids.tolist())
    captioned = [image for part in collections for image in part.images if image.captions]
    missing = [image for image in captioned if image.id not in featured_ids]
    if missing:
        first = missing[0].subject
        skipped(
            f"pictures without features, left out: {len(missing):,} of {len(captioned):,}, the "
            f"first is {first}; 'hasse lab features' on this dataset makes those of new ones"
        )


def learning_backbone(config: TrainingConfig, weights: Path | None) -> dict[str, Tensor] | None:
    """Return the first weights of a network that learns from pictures, or None for random ones.

    Call this first, because decoding the pictures takes long.

    Raises:
        BackboneError: there is no such network, its weights cannot be read, it has no grid to pool,
            or it cannot take pictures of this size.
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
    folder: Path,
    cache: Callable[[Dataset, Preprocessing, Path], PixelCache] = cache_pixels,
) -> TrainingInputs:
    """Prepare a training on pictures, which `cache` decodes once into `folder`.

    The backbone learns too.

    Raises:
        DatasetError: no picture can be read.
    """
    preprocessing = config.preprocessing
    training, validation = (
        (
            collection,
            PixelInput(
                cache(collection, preprocessing, folder / f"{part}-{preprocessing.resize}"),
                # The model is validated as it will be used, in float32.
                bfloat16=config.precision == "bfloat16" and part == "train",
            ),
        )
        for part, collection in zip(("train", "val"), collections, strict=True)
    )
    return TrainingInputs(training, validation, backbone_weights)
