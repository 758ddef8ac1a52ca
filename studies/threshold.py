"""Where to cut penalties so that pairs below the cut are called true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold, and its accuracy on the pairs that chose it.

    Attributes:
        value: call true what has a smaller penalty.
        accuracy: the share of those pairs that are then called right, in [0, 1].
    """

    value: float
    accuracy: float


def best_threshold(penalty: ArrayLike, true: ArrayLike) -> Threshold:
    """Return the cut with the highest accuracy; of several, the lowest.

    Penalties that are equal cannot be told apart, so a cut lies halfway between two distinct
    ones, below all or above all.

    Args:
        penalty: (n,), n at least 1, finite.
        true: (n,) of bool.
    """
    scores, labels = np.asarray(penalty, dtype=np.float64), np.asarray(true, dtype=np.bool_)
    distinct, which = np.unique(scores, return_inverse=True)
    gains = np.bincount(which, np.where(labels, 1, -1), minlength=len(distinct))
    # Right with everything above the cut: the false ones; each value that falls below adds its
    # true pairs and takes its false ones.
    right = np.count_nonzero(~labels) + np.concatenate(([0], np.cumsum(gains)))
    best = int(right.argmax())
    edges = np.concatenate(([distinct[0] - 2], distinct, [distinct[-1] + 2]))
    value = (edges[best] + edges[best + 1]) / 2
    return Threshold(float(value), float(right[best] / len(scores)))


def called_right(penalty: ArrayLike, true: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """Tell which pairs are called right by a threshold: (n,) -> (n,) of bool."""
    below = np.asarray(penalty, dtype=np.float64) < threshold
    return np.asarray(below == np.asarray(true, dtype=np.bool_))
