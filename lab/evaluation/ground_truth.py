"""Ground truth of a dataset: which captions are true of which images, and which imply which.

A photograph's captions are true of it, and so are captions of the same words. It is unknown which
others are. Drawn scenes carry their meaning, which decides the truth of every caption for every
image, and for every other caption.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import Dataset, DatasetError
from hasse.scenes.truth import SceneTruth

Rows = NDArray[np.int64]


class GroundTruth(Protocol):
    """Truth over the images and captions of a dataset, numbered in their order."""

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        """Return which captions hold of which images: (I,), (C,) -> (I, C)."""
        ...

    def entails(self, premises: Rows, hypotheses: Rows) -> NDArray[np.bool_] | None:
        """Return which captions follow from which: (P,), (H,) -> (P, H); None if it is unknown."""
        ...


class SameWords:
    """A caption holds of every image that has a caption of the same words."""

    def __init__(self, dataset: Dataset) -> None:
        number: dict[str, int] = {}
        described: list[set[int]] = []
        texts: list[int] = []
        for row, image in enumerate(dataset.images):
            for caption in image.captions:
                text = number.setdefault(caption.text, len(number))
                if text == len(described):
                    described.append(set())
                described[text].add(row)
                texts.append(text)
        self._texts = np.array(texts)
        # The images of all texts in one array, and the count and start of each text's.
        self._images = np.concatenate([sorted(rows) for rows in described])
        self._counts = np.array([len(rows) for rows in described])
        self._starts = np.cumsum(self._counts) - self._counts

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        texts = self._texts[captions]
        counts = self._counts[texts]
        columns = np.repeat(np.arange(len(texts)), counts)
        within_text = np.arange(len(columns)) - np.repeat(np.cumsum(counts) - counts, counts)
        described = self._images[self._starts[texts][columns] + within_text]
        distinct, image_rows = np.unique(images, return_inverse=True)
        row_of = np.minimum(np.searchsorted(distinct, described), len(distinct) - 1)
        is_among = distinct[row_of] == described
        true = np.zeros((len(distinct), len(texts)), dtype=np.bool_)
        true[row_of[is_among], columns[is_among]] = True
        return true[image_rows]

    def entails(self, premises: Rows, hypotheses: Rows) -> None:
        """Return None: the dataset does not record which other captions follow."""


def known_ground_truth(dataset: Dataset) -> GroundTruth:
    """Return the ground truth of a dataset: by meaning if everything has one, else by words.

    Raises:
        DatasetError: its meanings are not those of drawn scenes.
    """
    if not has_meanings(dataset):
        return SameWords(dataset)
    images = [image.meaning or {} for image in dataset.images]
    captions = [caption.meaning or {} for caption in dataset.captions]
    truth = SceneTruth.read(images, captions)
    if truth is None:
        raise DatasetError(
            f"the dataset '{dataset.name}' has meanings that are not those of drawn scenes: remove "
            f"the fields 'meaning' from its dataset.json"
        )
    return truth


def has_meanings(dataset: Dataset) -> bool:
    """Return whether every image and caption of a dataset has a meaning."""
    return all(image.meaning is not None for image in dataset.images) and all(
        caption.meaning is not None for caption in dataset.captions
    )


def caption_owners(dataset: Dataset) -> NDArray[np.int64]:
    """Return the row of each caption's own image, in the order of captions: (C,)."""
    counts = [len(image.captions) for image in dataset.images]
    return np.repeat(np.arange(len(counts)), counts)
