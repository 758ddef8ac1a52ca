"""Boxes in a picture around the things that a text names.

The network reads the picture at twice the side, so the last grid has 17 by 17 cells. The
classifier reads each cell; the logits of a window are the means over its cells. The box is the
largest window with at least a quarter of the best window's evidence. Smaller windows show only the
part of the thing with the most evidence, such as a head.
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

# Sides of windows as shares of the picture's, the largest first.
_SIDES = (1.0, 0.7, 0.5, 0.35, 0.25)
_ENOUGH = 0.25  # of the evidence of the best window
_BESIDE = 32  # maximum number of classes that stand for a phrase beside the classes
_LEAST = 0.02  # evidence of the best window, below which there is no box

Boxes = NDArray[np.float32]


def find_boxes(model: EmbeddingModel, pixels: Pixels, phrases: Sequence[Phrase]) -> Boxes:
    """Return a box for each phrase: left, top, right and bottom as shares of the sides, (P, 4).

    A phrase without evidence has a box of zeros. `pixels` are (1, 3, H, W), of any size.

    Raises:
        TypeError: the model is not grounded.
    """
    if not isinstance(model, GroundedModel):
        raise TypeError("only a grounded model finds things")
    return boxes_in_cells(model.evidence, model.cells(pixels), phrases)


def boxes_in_cells(evidence: Evidence, cells: Floats, phrases: Sequence[Phrase]) -> Boxes:
    """Return the boxes of `find_boxes`, from the features of a grid's cells: (S * S, F)."""
    boxes = np.zeros((len(phrases), 4), np.float32)
    logits = evidence.logits(cells).T  # (classes, S * S)
    side = math.isqrt(logits.shape[1])
    classes = np.stack([demanded_classes(evidence, phrase) for phrase in phrases])  # (P, classes)
    windows = list(_windows(logits.reshape(-1, side, side), classes))
    best = np.max([evidence_there.max(1) for evidence_there, _ in windows], 0).clip(_LEAST)
    for evidence_there, size in reversed(windows):
        row_length = side - size + 1
        largest, at = evidence_there.max(1), evidence_there.argmax(1)
        for row in np.flatnonzero(largest >= _ENOUGH * best).tolist():
            top, left = divmod(int(at[row]), row_length)
            boxes[row] = np.array([left, top, left + size, top + size]) / side
    boxes[best <= _LEAST] = 0
    return boxes


def demanded_classes(evidence: Evidence, phrase: Phrase) -> Floats:
    """Return 1 for each class in all sets that a phrase demands, else 0: (classes,).

    A phrase beside the classes with too many such classes, as "animal", has none.
    """
    classes: Floats = evidence.sets[:, list(phrase.coordinates)].min(1)
    return classes * 0 if phrase.is_beside and classes.sum() > _BESIDE else classes


def _windows(logits: Floats, classes: Floats) -> Iterator[tuple[Floats, int]]:
    """Yield the evidence of all windows of each size, (P, windows), and the size in cells."""
    sums = np.pad(logits, ((0, 0), (1, 0), (1, 0))).cumsum(1, np.float64).cumsum(2)
    for share in _SIDES:
        size = max(1, round(share * logits.shape[-1]))
        rows = sums[:, size:] - sums[:, :-size]
        total = rows[:, :, size:] - rows[:, :, :-size]  # (classes, across, across)
        means = (total.reshape(len(logits), -1) / size**2).astype(np.float32)
        yield classes @ softmax(means, 0), size
