"""A dataset through both encoders: from pictures, or from features that are cached on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.datasets.builder import Tally
from hasse.models.embedding_model import EmbeddingModel
from hasse.models.features.feature_store import FeaturesError, FeatureStore
from hasse.models.features.prefetch import decode_ahead
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.model import Points

Skipped = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BatchPoints:
    """Some images with their points (B, N), and a line of each that cannot be read."""

    images: list[Image]
    points: Points
    skipped: list[str]


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where the points of images come from.

    Attributes:
        features: a folder that `hasse lab features` wrote; without it, pictures are read.
        batch_size: pictures that go through the network together.
        workers: threads that decode; None takes one a core.
        skipped: told one line of every image that is left out.
        limits: how large a picture may be.
        block_seconds: how long points are gathered for one block; see `blocks`.
        spread: encodes pictures elsewhere, as `points` does; None encodes them here.
    """

    features: Path | None = None
    batch_size: int = 32
    workers: int | None = None
    skipped: Skipped = lambda line: None
    limits: PictureLimits = DEFAULT_LIMITS
    block_seconds: float = 2.0
    spread: Callable[[Sequence[Image]], Iterator[BatchPoints]] | None = None

    def points(
        self, model: EmbeddingModel, images: Sequence[Image]
    ) -> Iterator[tuple[list[Image], Points]]:
        """Yield images with their points, in order, a batch at a time: B images, (B, N).

        Memory does not grow with the collection. An image whose picture cannot be read, or that
        has no features, is left out.

        Raises:
            FeaturesError: the features are not those of this model, or of other images.
        """
        if self.features is None:
            batches = self.batches(model, images) if self.spread is None else self.spread(images)
            for batch in batches:
                for line in batch.skipped:
                    self.skipped(line)
                if batch.images:
                    yield batch.images, batch.points
        else:
            yield from self._from_features(model, images, self.features)

    def blocks(
        self, model: EmbeddingModel, images: Sequence[Image], limit: int = 4096
    ) -> Iterator[tuple[list[Image], Points]]:
        """Yield what `points` does, gathered into blocks that are worth a write to the disk.

        A block ends after `limit` images or `block_seconds`: a kill loses the block at hand.
        """
        gathered: list[Image] = []
        parts: list[Points] = []
        started = time.monotonic()
        for some, points in self.points(model, images):
            gathered += some
            parts.append(points)
            if len(gathered) >= limit or time.monotonic() - started > self.block_seconds:
                yield gathered, np.concatenate(parts)
                gathered, parts, started = [], [], time.monotonic()
        if gathered:
            yield gathered, np.concatenate(parts)

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

    def batches(self, model: EmbeddingModel, images: Iterable[Image]) -> Iterator[BatchPoints]:
        """Yield the points of pictures in order, a batch at a time."""
        for batch in decode_ahead(
            images, model.preprocessing, self.batch_size, self.workers, limits=self.limits
        ):
            good: list[Image] = []
            pixels: list[Tensor] = []
            skipped: list[str] = []
            for image, future in batch:
                try:
                    pixels.append(future.result())
                    good.append(image)
                except PictureError as error:
                    skipped.append(f"{image.subject}: {error}: skipped")
            points = np.empty((0, model.config.dimension), np.float32)
            if good:
                # No yield inside: the caller would go on in this mode.
                with torch.inference_mode():
                    stacked = torch.stack(pixels).to(model.device)  # (B, crops, 3, H, W)
                    points = model.pixel_points(stacked).cpu().numpy()
            yield BatchPoints(good, points, skipped)

    def _from_features(
        self, model: EmbeddingModel, images: Sequence[Image], folder: Path
    ) -> Iterator[tuple[list[Image], Points]]:
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
                yield good, model.encode_features(features)


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


@dataclass(frozen=True, slots=True)
class Encoded:
    """A dataset with its points: images (I, N), captions (C, N), in the dataset's order."""

    dataset: Dataset
    images: Points
    captions: Points

    def blocks(self, number: int) -> Iterator[Encoded]:
        """Cut the images into consecutive blocks of nearly one size, with their captions."""
        first = 0
        edges = np.linspace(0, len(self.dataset), number + 1).round().astype(int)
        for start, stop in pairwise(edges):
            part = replace(self.dataset, images=self.dataset.images[start:stop])
            last = first + sum(len(image.captions) for image in part.images)
            yield Encoded(part, self.images[start:stop], self.captions[first:last])
            first = last


def encode_dataset(
    model: EmbeddingModel, dataset: Dataset, source: ImageSource, progress: Tally
) -> Encoded:
    """Encode all of a dataset; images that cannot be read are not in the result.

    Raises:
        DatasetError: all images, or all with a caption, are left out; or none has a caption, which
            is told before anything is read.
        FeaturesError: the features are not those of this model, or of other images.
    """
    if not any(image.captions for image in dataset.images):
        raise DatasetError(
            f"none of these images of the dataset '{dataset.name}' has a caption, so there is "
            f"nothing to measure: name another split, or import the captions too"
        )
    images: list[Image] = []
    blocks: list[Points] = []
    for good, points in source.points(model, dataset.images):
        images += good
        blocks.append(points)
        progress(len(images), len(dataset))
    if not images:
        raise source.none_of(dataset)
    kept = replace(dataset, images=tuple(images))
    texts = [caption.text for caption in kept.captions]
    if not texts:
        raise DatasetError(
            f"the images of the dataset '{dataset.name}' that have a caption were all left out: "
            f"there is nothing to measure"
        )
    return Encoded(kept, np.concatenate(blocks), model.encode_captions(texts))
