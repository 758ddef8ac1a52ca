"""Features of pictures of classes, real and synthetic ones.

A classifier's weights are the direction of a class in feature space. Features of a training picture
that are moved along it in most regions are like those of a picture that shows the class. WordNet
names the class and all that it is a kind of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from hasse.lab.features.feature_store import FeatureStore
from hasse.models.datasets import Dataset, DatasetError
from hasse.studies.photographs.chains import Chain
from hasse.studies.photographs.classes import PictureClass
from hasse.studies.wordnet.words import content_words

Rows = NDArray[np.int64]
_FADES = 0.7  # a name's share of the nearer one's chance to be drawn, for each step above the class
_STRENGTH = (0.35, 0.85)  # smallest and largest distance that features are moved
_REGIONS = 0.7  # share of regions that are moved
_REMAINS = 0.7  # share of the distance by which the original features fade


@dataclass(frozen=True, slots=True)
class ClassFeatures:
    """Features of real pictures of classes.

    Attributes:
        dataset: of P pictures.
        rows: (P, REGIONS, F).
        classes: (P,), the class of each.
    """

    dataset: Dataset
    rows: NDArray[np.floating]
    classes: Rows

    def chains(self, classes: Sequence[PictureClass]) -> list[Chain]:
        """Return a chain for each picture, a name for each step of its class."""
        found = []
        for image, row in zip(self.dataset.images, self.classes, strict=True):
            one = classes[row]
            names = dict(zip(reversed(one.steps), reversed(one.texts), strict=True))
            texts = tuple(names[step] for step in sorted(names, reverse=True))
            words = {word for text in one.texts for word in content_words(text)}
            found.append(Chain(image.id, texts, tuple(sorted(words))))
        return found

    @classmethod
    def read(cls, folder: Path, dataset: Dataset, classes: Sequence[PictureClass]) -> Self:
        """Read features of pictures whose file name begins with a synset, as n01440764_tench.jpg.

        Raises:
            FeaturesError: a picture has no features.
            DatasetError: no picture is named so.
        """
        number = {f"n{one.synset}": row for row, one in enumerate(classes)}
        named = [(image, number.get(image.path.name[:9])) for image in dataset.images]
        found = [(image, row) for image, row in named if row is not None]
        if not found:
            raise DatasetError(
                f"no picture of '{dataset.name}' is named by its class, as n01440764_tench.jpg"
            )
        store = FeatureStore.open(folder)
        store.require_names(dataset.images)
        images = tuple(image for image, _ in found)
        rows = store.select([image.id for image in images], regions=True)
        return cls(replace(dataset, images=images), rows, np.array([row for _, row in found]))


class ClassPictures:
    """Draws pictures of classes with a text each.

    Attributes:
        texts: the distinct texts of all classes.
    """

    def __init__(
        self, classes: Sequence[PictureClass], weights: Tensor, real: ClassFeatures | None = None
    ) -> None:
        """Take classes, a classifier's weights (K, F) in their order, and real pictures."""
        self._real = real
        numbers: dict[str, int] = {}
        self._own = [
            np.array([numbers.setdefault(text, len(numbers)) for text in one.texts])
            for one in classes
        ]
        self._chances = [_FADES ** np.array(one.steps, dtype=np.float64) for one in classes]
        self.texts = tuple(numbers)
        self._holds = np.zeros((len(classes), len(numbers)), np.bool_)
        for row, own in enumerate(self._own):
            self._holds[row, own] = True
        self._directions = normalize(weights - weights.mean(0), dim=-1)

    def draw(
        self, features: Tensor, draw: np.random.Generator
    ) -> tuple[Tensor, Rows, NDArray[np.bool_]]:
        """Make as many pictures as there are features of others: (B, REGIONS, F).

        As many real ones follow, if there are any.

        Returns:
            Their features, the rows of a text for each, and which texts hold of which, (P, P).
        """
        rows = draw.integers(len(self._own), size=len(features))
        made = self._made(features, rows, draw)
        if self._real is not None:
            chosen = draw.integers(len(self._real.rows), size=len(features))
            seen = np.asarray(self._real.rows[chosen], dtype=np.float32)
            made = torch.cat([made, torch.from_numpy(seen)])
            rows = np.concatenate([rows, self._real.classes[chosen]])
        texts = np.array(
            [
                draw.choice(self._own[row], p=self._chances[row] / self._chances[row].sum())
                for row in rows
            ]
        )
        return made, texts, self._holds[rows][:, texts]

    def _made(self, features: Tensor, rows: Rows, draw: np.random.Generator) -> Tensor:
        strength = draw.uniform(*_STRENGTH, size=(len(rows), 1, 1))
        pushed = strength * (draw.random((len(rows), features.shape[1], 1)) < _REGIONS)
        share = torch.from_numpy(pushed.astype(np.float32))
        made = (1 - _REMAINS * share) * normalize(features, dim=-1)
        made = made + share * self._directions[torch.from_numpy(rows)][:, None]
        return made.relu()
