"""Encodes all images and captions of a dataset into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.datasets.builder import ProgressCallback
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.service.writing.image_source import ImageSource


@dataclass(frozen=True, slots=True)
class EncodedDataset:
    """A dataset with its points: images (I, N), captions (C, N), in the dataset's order."""

    dataset: Dataset
    images: Points
    captions: Points

    def blocks(self, number: int) -> Iterator[EncodedDataset]:
        """Split into consecutive blocks of nearly equal size, each with its captions."""
        first = 0
        edges = np.linspace(0, len(self.dataset), number + 1).round().astype(int)
        for start, stop in pairwise(edges):
            part = replace(self.dataset, images=self.dataset.images[start:stop])
            last = first + sum(len(image.captions) for image in part.images)
            yield EncodedDataset(part, self.images[start:stop], self.captions[first:last])
            first = last


def encode_dataset(
    model: EmbeddingModel, dataset: Dataset, source: ImageSource, progress: ProgressCallback
) -> EncodedDataset:
    """Encode a whole dataset. Images that cannot be read are not in the result.

    Raises:
        DatasetError: no image has a caption, which is checked first; or all images, or all those
            with a caption, are left out.
        FeaturesError: the features are not those of this model, or of other images.
    """
    if not any(image.captions for image in dataset.images):
        raise DatasetError(
            f"none of these images of the dataset '{dataset.name}' has a caption, so there is "
            f"nothing to measure: name another split, or import the captions too"
        )
    images: list[Image] = []
    blocks: list[Points] = []
    for batch in source.encode(model, dataset.images):
        images += batch.images
        blocks.append(batch.points)
        progress(len(images), len(dataset))
    if not images:
        raise source.no_images_error(dataset)
    readable = replace(dataset, images=tuple(images))
    texts = [caption.text for caption in readable.captions]
    if not texts:
        raise DatasetError(
            f"the images of the dataset '{dataset.name}' that have a caption were all left out: "
            f"there is nothing to measure"
        )
    return EncodedDataset(readable, np.concatenate(blocks), model.encode_captions(texts))
