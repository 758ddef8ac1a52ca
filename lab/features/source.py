"""Encodes the images of a dataset from cached features of a frozen network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path

from hasse.lab.features.feature_store import FeaturesError, FeatureStore
from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.embedding_model import EmbeddingModel
from hasse.models.images.decoding import date_taken
from hasse.models.images.inspection import PictureFacts
from hasse.service.writing.image_source import EncodedImages, ImageSource

_BATCH = 1024  # images


@dataclass(frozen=True, slots=True)
class FeatureSource(ImageSource):
    """Encodes images from features; an image without features is left out.

    Attributes:
        features: a folder that `hasse lab features` wrote.
    """

    features: Path = field(kw_only=True)

    @property
    def identity(self) -> str:
        """What points are made of, for the fingerprint of a build."""
        return str(self.features)

    def encode(self, model: EmbeddingModel, images: Sequence[Image]) -> Iterator[EncodedImages]:
        """Yield images with their points, in order, a batch at a time.

        Raises:
            FeaturesError: the features are not those of this model, or of other images.
        """
        store = FeatureStore.open(self.features)
        require_features_of(model, store, self.features)
        store.require_names(images)
        ids_with_features = set(store.image_ids.tolist())
        remaining = iter(images)
        while batch := list(islice(remaining, _BATCH)):
            with_features = [image for image in batch if image.id in ids_with_features]
            for image in batch:
                if image.id not in ids_with_features:
                    self.skipped(f"{image.subject}: no features: skipped")
            if with_features:
                regions = model.config.image_pooling == "regions"
                features = store.select([image.id for image in with_features], regions=regions)
                facts = [_dataset_facts(image) for image in with_features]
                yield EncodedImages(with_features, facts, model.encode_features(features))

    def no_images_error(self, dataset: Dataset) -> DatasetError:
        """Return the error for a dataset whose images were all left out."""
        return DatasetError(
            f"no image of the dataset '{dataset.name}' has features in {self.features}: "
            f"run 'hasse lab features' on this dataset, or leave --features out"
        )


def with_features(source: ImageSource, features: Path | None) -> ImageSource:
    """Return a source that takes cached features, if there are any, in the place of pictures."""
    if features is None:
        return source
    options = {option.name: getattr(source, option.name) for option in fields(ImageSource)}
    return FeatureSource(**options, features=features)


def _dataset_facts(image: Image) -> PictureFacts:
    """Return the facts that the dataset knows; a picture with features is not read."""
    return PictureFacts("", image.path.suffix, image.width, image.height, date_taken(image.path))


def require_features_of(model: EmbeddingModel, store: FeatureStore, folder: Path) -> None:
    """Raise FeaturesError for features of another network or preprocessing, or without regions."""
    backbone, expected = model.backbone, model.preprocessing
    if store.maker.weights != backbone.fingerprint():
        raise FeaturesError(
            f"the features in {folder} were not made with the network of this model "
            f"({backbone.name}): run 'hasse lab features' with it, or leave --features out"
        )
    if store.maker.preprocessing != expected:
        raise FeaturesError(
            f"the pictures of the features in {folder} were prepared otherwise than this model "
            f"prepares them: run 'hasse lab features' with --resize {expected.resize} "
            f"--crop {expected.crop} --crops {expected.crops} --framing {expected.framing} "
            f"--interpolation {expected.interpolation}, or leave --features out"
        )
    store.views(regions=model.config.image_pooling == "regions")
