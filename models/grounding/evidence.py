"""Evidence that a picture shows one of a set of classes, by a network's own classifier.

A set is a synset of WordNet, with all classes below it, or a code: classes put together at random.
Each class is in three codes, so that a few coordinates tell a thousand classes apart. The evidence
of a set is the largest sum of the probabilities of its classes over the whole picture and four
overlapping windows of it. So the evidence of a set is at most that of a set which contains it: a
poodle's is at most a dog's, and a dog's at most an animal's, exactly.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.names import LITE
from hasse.models.encoders.weights import BackboneError
from hasse.models.kernels.products import Product

Floats: TypeAlias = NDArray[np.float32]
Classifier: TypeAlias = tuple[Floats, Floats]  # weights (classes, F) and biases (classes,)

# Logarithms to the base 10 of the odds that become 0 and 1.
LEAST, MOST = -3.0, 3.0
_TINY = np.float32(1e-6)
_ACROSS = 3  # regions of a picture beside each other
_WINDOWS = 5


class Evidence:
    """Reads the evidence of sets of classes off features of regions.

    Attributes:
        sets: (classes, K), 1 where a class is in a set.
    """

    def __init__(self, sets: Floats, classifier: Classifier) -> None:
        """Take sets of classes, and a classifier.

        Raises:
            BackboneError: the classifier has another number of classes.
        """
        weight, self._bias = classifier
        if len(weight) != len(sets):
            raise BackboneError(
                f"the network tells {len(weight):,} classes apart and the model {len(sets):,}: "
                f"it was grounded in another network"
            )
        self.sets = sets.astype(np.float32)
        self._classes, self._sets = Product(weight.T, _WINDOWS), Product(self.sets, _WINDOWS)

    def logits(self, features: Floats) -> Floats:
        """Return the logits of all classes: (R, F) -> (R, classes)."""
        return self._classes.of(features) + self._bias

    def of(self, features: Floats) -> Floats:
        """Return evidence between 0 and 1: (B, REGIONS, F) -> (B, K).

        A picture's has the same bits whichever pictures are beside it.
        """
        found = np.empty((len(features), self.sets.shape[1]), np.float32)
        for row, each in enumerate(windows(features)):  # products round by the number of rows
            shares = self._sets.of(softmax(self.logits(each), 1))  # (windows, K)
            largest = shares.max(0).clip(_TINY, 1 - _TINY)
            odds = np.log10(largest / (1 - largest))
            found[row] = ((odds - LEAST) / (MOST - LEAST)).clip(0, 1)
        return found


def softmax(logits: Floats, axis: int) -> Floats:
    """Return probabilities that add up to 1 along an axis."""
    powers = np.exp(logits - logits.max(axis, keepdims=True))
    shares: Floats = powers / powers.sum(axis, keepdims=True)
    return shares


def windows(features: Floats) -> Floats:
    """Return the features of the whole and of four windows of two by two regions of three by three.

    (B, REGIONS, F) -> (B, 5, F). A window is two thirds of the picture's width and height.
    """
    grid = features[:, 1:].reshape(len(features), _ACROSS, _ACROSS, -1)  # (B, 3, 3, F)
    below = grid[:, :-1] + grid[:, 1:]
    square = (below[:, :, :-1] + below[:, :, 1:]) / 4  # (B, 2, 2, F)
    four = square.reshape(len(features), 4, -1)
    return np.concatenate([features[:, :1], four], 1)


def classifier_of(backbone: str) -> Classifier:
    """Return the weights and biases of the classifier of an encoder of pictures.

    Raises:
        BackboneError: it has none whose classes are synsets, or its package is missing.
    """
    if backbone != LITE:
        raise BackboneError(
            f"{backbone} has no classifier here whose classes are synsets of WordNet: ground a "
            f"model on {LITE}"
        )
    from hasse.models.encoders.libraries.efficientnet_lite import classifier

    return classifier()
