"""Which captions are true of which images, and which follow from which, as far as a dataset tells.

A photograph's captions are true of it; what else is true of it nobody wrote down, except where
another image carries the very same words. Scenes know their meaning, so there the truth of
every caption for every image is known, and for every other caption.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets import Dataset
from hasse.scenes import Scene, SceneTable, Statement

Rows = NDArray[np.int64]


class GroundTruth(Protocol):
    """Tells truths of a dataset, whose images and captions are numbered in their order."""

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        """Tell which captions hold of which images: (I,), (C,) -> (I, C)."""
        ...

    def entails(self, premises: Rows, hypotheses: Rows) -> NDArray[np.bool_] | None:
        """Tell which captions follow from which: (P,), (H,) -> (P, H), or None: nobody knows."""
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
        asked, places = np.unique(images, return_inverse=True)
        at = np.minimum(np.searchsorted(asked, described), len(asked) - 1)
        found = asked[at] == described
        true = np.zeros((len(asked), len(texts)), dtype=np.bool_)
        true[at[found], columns[found]] = True
        return true[places]

    def entails(self, premises: Rows, hypotheses: Rows) -> None:
        """Tell nothing: what else follows from a caption nobody wrote down."""


class Meanings:
    """A caption holds of every scene whose meaning makes its statement true."""

    def __init__(self, dataset: Dataset) -> None:
        self._table = SceneTable([Scene.from_json(i.meaning or {}) for i in dataset.images])
        statements: dict[str, int] = {}
        self._statements: list[Statement] = []
        self._numbers: list[int] = []
        for caption in dataset.captions:
            if caption.text not in statements:
                statements[caption.text] = len(statements)
                self._statements.append(Statement.from_json(caption.meaning or {}))
            self._numbers.append(statements[caption.text])
        # One bit for each scene and distinct statement, found when first asked for.
        self._known: dict[int, NDArray[np.uint8]] = {}
        self._scenes = len(dataset)

    def holds(self, images: Rows, captions: Rows) -> NDArray[np.bool_]:
        return np.stack([self._of(self._numbers[c])[images] for c in captions], axis=1)

    def entails(self, premises: Rows, hypotheses: Rows) -> NDArray[np.bool_]:
        table = SceneTable([self._statements[self._numbers[c]] for c in premises])
        asked = [self._statements[self._numbers[c]] for c in hypotheses]
        return np.stack([table.holds(statement) for statement in asked], axis=1)

    def _of(self, statement: int) -> NDArray[np.bool_]:
        bits = self._known.get(statement)
        if bits is None:
            bits = np.packbits(self._table.holds(self._statements[statement]))
            self._known[statement] = bits
        return np.unpackbits(bits, count=self._scenes).astype(np.bool_)


def known_ground_truth(dataset: Dataset) -> GroundTruth:
    """Return what is known of a dataset: by meaning where all of it has one, else by words."""
    return Meanings(dataset) if has_meanings(dataset) else SameWords(dataset)


def has_meanings(dataset: Dataset) -> bool:
    """Tell whether every image and caption of a dataset carries its meaning."""
    return all(image.meaning is not None for image in dataset.images) and all(
        caption.meaning is not None for caption in dataset.captions
    )


def own_captions(dataset: Dataset) -> NDArray[np.int64]:
    """Return, for each caption in order, the row of the image it was written for: (C,)."""
    counts = [len(image.captions) for image in dataset.images]
    return np.repeat(np.arange(len(counts)), counts)
