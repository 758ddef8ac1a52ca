"""Where the points of a dataset's images come from: pictures, or features cached on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.embedding_model import (
    EmbeddingModel,
    Points,
    encoders_beside_each_other,
)
from hasse.models.features.feature_store import FeaturesError, FeatureStore
from hasse.models.features.prefetch import DecodedBatch, beside_each_other, decode_ahead
from hasse.models.images.decoding import decode, taken_at
from hasse.models.images.inspection import InspectedPicture, PictureFacts, inspect
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """Some images with their facts and points (B, N), and those that cannot be read."""

    images: list[Image]
    facts: list[PictureFacts]
    points: Points
    unusable: list[tuple[Image, PictureError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where the points of images come from.

    Attributes:
        features: a folder that `hasse lab features` wrote; without it, pictures are read.
        batch_size: pictures that go through the network together.
        workers: threads that decode; None takes one a core.
        skipped: receives one line for every image that is left out.
        limits: how large a picture may be.
        block_seconds: how long points are gathered for one block; see `blocks`.
        spread: encodes pictures elsewhere, as `batches` does; None encodes them here.
    """

    features: Path | None = None
    batch_size: int = 32
    workers: int | None = None
    skipped: Callable[[str], None] = lambda line: None
    limits: PictureLimits = DEFAULT_LIMITS
    block_seconds: float = 2.0
    spread: Callable[[Sequence[Image]], Iterator[EncodedImages]] | None = None

    def encoded(self, model: EmbeddingModel, images: Sequence[Image]) -> Iterator[EncodedImages]:
        """Yield images with their points, in order, a batch at a time.

        Memory does not grow with the collection. An image whose picture cannot be read, or that
        has no features, is left out.

        Raises:
            FeaturesError: the features are not those of this model, or of other images.
        """
        if self.features is not None:
            yield from self._from_features(model, images, self.features)
            return
        for batch in self.batches(model, images) if self.spread is None else self.spread(images):
            for image, error in batch.unusable:
                self.skipped(f"{image.subject}: {error}: skipped")
            yield batch

    def blocks(
        self, model: EmbeddingModel, images: Sequence[Image], limit: int = 4096
    ) -> Iterator[EncodedImages]:
        """Yield what `encoded` does, gathered into blocks that are worth a write to the disk.

        A block ends after `limit` images or `block_seconds`: a kill loses the block at hand.
        """
        gathered: list[EncodedImages] = []
        started = time.monotonic()
        for batch in self.encoded(model, images):
            gathered.append(batch)
            many = sum(len(one.images) for one in gathered) >= limit
            if many or time.monotonic() - started > self.block_seconds:
                yield _joined(gathered)
                gathered, started = [], time.monotonic()
        if gathered:
            yield _joined(gathered)

    def none_of(self, dataset: Dataset) -> DatasetError:
        """Return the error for a dataset of which every image was left out."""
        if self.features is None:
            return DatasetError(
                f"no picture of the dataset '{dataset.name}' can be read: "
                f"check the paths in its dataset.json, or import it again"
            )
        return DatasetError(
            f"no image of the dataset '{dataset.name}' has features in {self.features}: "
            f"run 'hasse lab features' on this dataset, or leave --features out"
        )

    def batches(self, model: EmbeddingModel, images: Iterable[Image]) -> Iterator[EncodedImages]:
        """Yield the points of pictures in order, a batch at a time."""
        looks = model.preprocessing

        def inspected(image: Image) -> InspectedPicture:
            return inspect(image.path, decode(image.path, self.limits, looks.resize), looks)

        def encoded(batch: DecodedBatch[Image, InspectedPicture]) -> Points:
            return model.encode_pixels([picture.pixels for picture in batch.results])

        decoded = decode_ahead(images, inspected, self.batch_size, self.workers)
        encoders = encoders_beside_each_other(model)
        for batch, points in beside_each_other(decoded, encoded, *encoders):
            facts = [picture.facts for picture in batch.results]
            yield EncodedImages(batch.items, facts, points, batch.unusable)

    def _from_features(
        self, model: EmbeddingModel, images: Sequence[Image], folder: Path
    ) -> Iterator[EncodedImages]:
        store = FeatureStore.open(folder)
        require_features_of(model, store, folder)
        store.require_names(images)
        known = set(store.image_ids.tolist())
        source = iter(images)
        while batch := list(islice(source, 1024)):
            good = [image for image in batch if image.id in known]
            for image in batch:
                if image.id not in known:
                    self.skipped(f"{image.subject}: no features: skipped")
            if good:
                regions = model.config.image_pooling == "regions"
                features = store.select([image.id for image in good], regions=regions)
                yield EncodedImages(
                    good, [_facts_unread(image) for image in good], model.encode_features(features)
                )


def _joined(batches: Sequence[EncodedImages]) -> EncodedImages:
    return EncodedImages(
        [image for batch in batches for image in batch.images],
        [facts for batch in batches for facts in batch.facts],
        np.concatenate([batch.points for batch in batches]),
        [one for batch in batches for one in batch.unusable],
    )


def _facts_unread(image: Image) -> PictureFacts:
    """Return the facts of a picture that is not read, because its features are there."""
    return PictureFacts("", image.path.suffix, image.width, image.height, taken_at(image.path))


def require_features_of(model: EmbeddingModel, store: FeatureStore, folder: Path) -> None:
    """Refuse features of another network or preparation, or without regions (FeaturesError)."""
    backbone, looks = model.backbone, model.preprocessing
    if store.maker.weights != backbone.fingerprint():
        raise FeaturesError(
            f"the features in {folder} were not made with the network of this model "
            f"({backbone.name}): run 'hasse lab features' with it, or leave --features out"
        )
    if store.maker.preprocessing != looks:
        raise FeaturesError(
            f"the pictures of the features in {folder} were prepared otherwise than this model "
            f"prepares them: run 'hasse lab features' with --resize {looks.resize} --crop "
            f"{looks.crop} "
            f"--crops {looks.crops} --framing {looks.framing} --interpolation "
            f"{looks.interpolation}, or leave --features out"
        )
    store.views(regions=model.config.image_pooling == "regions")
