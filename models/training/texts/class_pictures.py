"""Pictures of classes that nobody took, made of features and of what a classifier looks for.

A classifier's weights say which features mean a class. Features of a training picture, pushed
along them in most regions, are those of a picture in which that class is seen. WordNet names what
is true of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from models.tasks.abstraction.classes import PictureClass

Rows = NDArray[np.int64]
_FADES = 0.7  # a name's share of the nearer one's chance to be drawn, for each step above the class
_STRENGTH = (0.35, 0.85)  # least and most of how far features are pushed
_REGIONS = 0.7  # share of regions that are
_REMAINS = 0.7  # share of the strength by which what was there fades


class ClassPictures:
    """Draws pictures of classes with a text each.

    Attributes:
        texts: the distinct texts of all classes.
    """

    def __init__(self, classes: Sequence[PictureClass], weights: Tensor) -> None:
        """Take classes, and a classifier's weights (K, F) in their order."""
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

        Returns:
            Their features, the rows of a text for each, and which texts hold of which, (B, B).
        """
        many = len(features)
        rows = draw.integers(len(self._own), size=many)
        texts = np.array(
            [
                draw.choice(self._own[row], p=self._chances[row] / self._chances[row].sum())
                for row in rows
            ]
        )
        strength = draw.uniform(*_STRENGTH, size=(many, 1, 1))
        pushed = strength * (draw.random((many, features.shape[1], 1)) < _REGIONS)
        share = torch.from_numpy(pushed.astype(np.float32))
        made = (1 - _REMAINS * share) * normalize(features, dim=-1)
        made = made + share * self._directions[torch.from_numpy(rows)][:, None]
        return made.relu(), texts, self._holds[rows][:, texts]
