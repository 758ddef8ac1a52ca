"""Encodes the images of a dataset from their pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.embedding_model import EmbeddingModel, Points, parallel_encoders
from hasse.models.images.decoding import decode
from hasse.models.images.inspection import InspectedPicture, PictureFacts, inspect
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.service.writing.prefetch import DecodedBatch, decode_ahead, map_in_threads


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """Some images with their facts and points (B, N), and those that cannot be read."""

    images: list[Image]
    facts: list[PictureFacts]
    points: Points
    unusable: list[tuple[Image, PictureError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ImageSource:
    """How the images of a dataset are encoded: here, from their pictures.

    Attributes:
        batch_size: pictures that go through the network together.
        workers: threads that decode; None takes one a core.
        skipped: receives one line for every image that is left out.
        limits: how large a picture may be.
        block_seconds: how long points are gathered for one block; see `encode_blocks`.
        cluster_batches: encodes pictures on other machines, as `encode_batches` does here.
    """

    batch_size: int = 32
    workers: int | None = None
    skipped: Callable[[str], None] = lambda line: None
    limits: PictureLimits = DEFAULT_LIMITS
    block_seconds: float = 2.0
    cluster_batches: Callable[[Sequence[Image]], Iterator[EncodedImages]] | None = None

    @property
    def identity(self) -> str:
        """What points are made of, for the fingerprint of a build."""
        return "None"  # as in builds that 0.3.0 has begun

    def encode(self, model: EmbeddingModel, images: Sequence[Image]) -> Iterator[EncodedImages]:
        """Yield images with their points, in order, a batch at a time.

        Memory does not grow with the collection. An image whose picture cannot be read is left out.
        """
        if self.cluster_batches is None:
            batches = self.encode_batches(model, images)
        else:
            batches = self.cluster_batches(images)
        for batch in batches:
            for image, error in batch.unusable:
                self.skipped(f"{image.subject}: {error}: skipped")
            yield batch

    def encode_blocks(
        self, model: EmbeddingModel, images: Sequence[Image], limit: int = 4096
    ) -> Iterator[EncodedImages]:
        """Yield what `encode` does, gathered into blocks that are worth a write to the disk.

        A block ends after `limit` images or `block_seconds`. A kill loses the last block.
        """
        gathered: list[EncodedImages] = []
        started = time.monotonic()
        for batch in self.encode(model, images):
            gathered.append(batch)
            is_full = sum(len(batch.images) for batch in gathered) >= limit
            if is_full or time.monotonic() - started > self.block_seconds:
                yield _join(gathered)
                gathered, started = [], time.monotonic()
        if gathered:
            yield _join(gathered)

    def no_images_error(self, dataset: Dataset) -> DatasetError:
        """Return the error for a dataset whose images were all left out."""
        return DatasetError(
            f"no picture of the dataset '{dataset.name}' can be read: "
            f"check the paths in its dataset.json, or import it again"
        )

    def encode_batches(
        self, model: EmbeddingModel, images: Iterable[Image]
    ) -> Iterator[EncodedImages]:
        """Yield the points of pictures in order, a batch at a time."""
        preprocessing = model.preprocessing

        def inspect_image(image: Image) -> InspectedPicture:
            pixels = decode(image.path, self.limits, preprocessing.resize)
            return inspect(image.path, pixels, preprocessing)

        def encode_batch(batch: DecodedBatch[Image, InspectedPicture]) -> Points:
            return model.encode_pixels([picture.pixels for picture in batch.results])

        decoded = decode_ahead(images, inspect_image, self.batch_size, self.workers)
        encoders = parallel_encoders(model)
        for batch, points in map_in_threads(decoded, encode_batch, *encoders):
            facts = [picture.facts for picture in batch.results]
            yield EncodedImages(batch.items, facts, points, batch.unusable)


def _join(batches: Sequence[EncodedImages]) -> EncodedImages:
    return EncodedImages(
        [image for batch in batches for image in batch.images],
        [facts for batch in batches for facts in batch.facts],
        np.concatenate([batch.points for batch in batches]),
        [pair for batch in batches for pair in batch.unusable],
    )
