"""Ground truth of a dataset: which captions are true of which images, and which imply which.

A photograph's captions are true of it, and so are captions of the same words. Nobody wrote down
what else is true. Drawn scenes carry their meaning, which decides the truth of every caption for
every image, and for every other caption. A package that has such meanings registers a reader.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import Dataset, DatasetError
from hasse.models.evaluation.meanings import READERS

Rows = NDArray[np.int64]


class GroundTruth(Protocol):
    """Truth over the images and captions of a dataset, numbered in their order."""

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        """Return which captions hold of which images: (I,), (C,) -> (I, C)."""
        ...

    def entails(self, premises: Rows, hypotheses: Rows) -> NDArray[np.bool_] | None:
        """Tell which captions follow from which: (P,), (H,) -> (P, H); None if it is unknown."""
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
        # The images of all texts one after the other, how many each has and where they begin.
        self._images = np.concatenate([sorted(rows) for rows in described])
        self._counts = np.array([len(rows) for rows in described])
        self._starts = np.cumsum(self._counts) - self._counts

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        texts = self._texts[captions]
        counts = self._counts[texts]
        columns = np.repeat(np.arange(len(texts)), counts)
        within = np.arange(len(columns)) - np.repeat(np.cumsum(counts) - counts, counts)
        described = self._images[self._starts[texts][columns] + within]
        chosen, places = np.unique(images, return_inverse=True)
        at = np.minimum(np.searchsorted(chosen, described), len(chosen) - 1)
        wanted = chosen[at] == described
        true = np.zeros((len(chosen), len(texts)), dtype=np.bool_)
        true[at[wanted], columns[wanted]] = True
        return true[places]

    def entails(self, premises: Rows, hypotheses: Rows) -> None:
        """Return None: it is not written down which other captions follow."""


def known_ground_truth(dataset: Dataset) -> GroundTruth:
    """Return the ground truth of a dataset: by meaning if all of it has one, else by words.

    Raises:
        DatasetError: no registered reader understands the meanings.
    """
    if not has_meanings(dataset):
        return SameWords(dataset)
    images = [image.meaning or {} for image in dataset.images]
    captions = [caption.meaning or {} for caption in dataset.captions]
    for reader in READERS:
        truth = reader(images, captions)
        if truth is not None:
            return truth
    raise DatasetError(
        f"the dataset '{dataset.name}' has meanings that no installed package reads: register a "
        f"reader, or remove the fields 'meaning' from its dataset.json"
    )


def has_meanings(dataset: Dataset) -> bool:
    """Tell whether every image and caption of a dataset carries its meaning."""
    return all(image.meaning is not None for image in dataset.images) and all(
        caption.meaning is not None for caption in dataset.captions
    )


def own_captions(dataset: Dataset) -> NDArray[np.int64]:
    """Return, for each caption in order, the row of the image it was written for: (C,)."""
    counts = [len(image.captions) for image in dataset.images]
    return np.repeat(np.arange(len(counts)), counts)
