"""Where in a picture the things are that a text names.

The picture is read at twice the side, so that the last grid has 17 by 17 cells. The classifier
reads each cell, and a window of cells by the mean of its logits. Of the windows that carry a
quarter or more of the evidence that the best one carries, the largest is the place: smaller ones
hold a part of the thing that tells most, such as a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import EmbeddingModel
from hasse.models.grounding.demands import Phrase
from hasse.models.grounding.evidence import Evidence, Floats, softmax
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.images.preprocessing import Pixels

# Shares of the sides of a picture that windows have, the largest first.
_SIDES = (1.0, 0.7, 0.5, 0.35, 0.25)
_ENOUGH = 0.25  # of the evidence of the best window
_BESIDE = 32  # classes at most that a phrase beside the classes is looked for by
_LEAST = 0.02  # evidence of the best window below which nothing is found

Boxes = NDArray[np.float32]


def find(model: EmbeddingModel, pixels: Pixels, phrases: Sequence[Phrase]) -> Boxes:
    """Return a box for each phrase: left, top, right and bottom as shares of the sides, (P, 4).

    A phrase that is not found has a box of zeros. `pixels` are (1, 3, H, W), of any size.

    Raises:
        TypeError: the model is not grounded.
    """
    if not isinstance(model, GroundedModel):
        raise TypeError("only a grounded model finds things")
    return boxes(model.evidence, model.cells(pixels), phrases)


def boxes(evidence: Evidence, cells: Floats, phrases: Sequence[Phrase]) -> Boxes:
    """Return what `find` does, of the cells of a grid, (S * S, F)."""
    found = np.zeros((len(phrases), 4), np.float32)
    logits = evidence.logits(cells).T  # (classes, S * S)
    side = math.isqrt(logits.shape[1])
    classes = np.stack([demanded_classes(evidence, phrase) for phrase in phrases])  # (P, classes)
    windows = list(_windows(logits.reshape(-1, side, side), classes))
    best = np.max([carried.max(1) for carried, _ in windows], 0).clip(_LEAST)
    for carried, size in reversed(windows):
        across = side - size + 1
        most, at = carried.max(1), carried.argmax(1)
        for row in np.flatnonzero(most >= _ENOUGH * best).tolist():
            top, left = divmod(int(at[row]), across)
            found[row] = np.array([left, top, left + size, top + size]) / side
    found[best <= _LEAST] = 0
    return found


def demanded_classes(evidence: Evidence, phrase: Phrase) -> Floats:
    """Return 1 for each class that is all that a phrase demands: (classes,).

    A phrase beside the classes that only says what kind of animal or thing it is has none.
    """
    classes: Floats = evidence.sets[:, list(phrase.coordinates)].min(1)
    return classes * 0 if phrase.is_beside and classes.sum() > _BESIDE else classes


def _windows(logits: Floats, classes: Floats) -> Iterator[tuple[Floats, int]]:
    """Yield the evidence of all windows of each size, (P, windows), and the size in cells."""
    sums = np.pad(logits, ((0, 0), (1, 0), (1, 0))).cumsum(1, np.float64).cumsum(2)
    for share in _SIDES:
        size = max(1, round(share * logits.shape[-1]))
        below = sums[:, size:] - sums[:, :-size]
        total = below[:, :, size:] - below[:, :, :-size]  # (classes, across, across)
        means = (total.reshape(len(logits), -1) / size**2).astype(np.float32)
        yield classes @ softmax(means, 0), size
