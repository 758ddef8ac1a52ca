"""Evidence that a picture shows one of a set of classes, by the network's classifier.

A set is a synset of WordNet, with all classes below it, or a code: a random set of classes. Each
class is in three codes, so a few coordinates tell a thousand classes apart. The evidence of a set
is the sum of the probabilities of its classes, in the best of five windows: the whole picture and
four overlapping parts. So the evidence of a set is at most that of a set that contains it: a
poodle's is at most a dog's, and a dog's at most an animal's, exactly.

Behind the sets come the words of `hasse.models.grounding.taught`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.grounding.taught import TaughtWords
from hasse.models.kernels.products import Product
from hasse.models.networks.network import NetworkError

Floats: TypeAlias = NDArray[np.float32]
Classifier: TypeAlias = tuple[Floats, Floats]  # weights (classes, F) and biases (classes,)

# Decimal logarithms of odds: the lower one becomes evidence 0, the upper one 1. What captions teach
# is seldom sure, since they leave out most of what a picture shows.
LOWEST_ODDS, HIGHEST_ODDS, HIGHEST_TAUGHT = -3.0, 3.0, 1.0
_TINY = np.float32(1e-6)
_SIDE = 3  # regions in a row of the grid
_WINDOWS = 5


class Evidence:
    """Computes the evidence of sets of classes and of taught words from features of regions.

    Attributes:
        sets: (classes, S), 1 where a class is in a set.
        taught: T words that were learned from pictures, or None.
        size: K, the number of coordinates: S + T.
    """

    def __init__(
        self, sets: Floats, classifier: Classifier, taught: TaughtWords | None = None
    ) -> None:
        """Prepare sets of classes (classes, S), a classifier and taught words.

        Raises:
            NetworkError: the classifier has another number of classes.
        """
        weight, self._bias = classifier
        if len(weight) != len(sets):
            raise NetworkError(
                f"the network tells {len(weight):,} classes apart and the model {len(sets):,}: "
                f"it was grounded in another network"
            )
        self.sets, self.taught = sets.astype(np.float32), taught
        self.size = sets.shape[1] + (0 if taught is None else len(taught))
        self._classes, self._sets = Product(weight.T, _WINDOWS), Product(self.sets, _WINDOWS)

    def logits(self, features: Floats) -> Floats:
        """Return the logits of all classes: (R, F) -> (R, classes)."""
        return self._classes.of(features) + self._bias

    def of(self, features: Floats) -> Floats:
        """Return evidence between 0 and 1: (B, REGIONS, F) -> (B, K).

        The bits of a picture's evidence do not depend on the other pictures of the batch.
        """
        odds = np.empty((len(features), self.size), np.float32)
        count = self.sets.shape[1]
        for row, picture in enumerate(windows(features)):  # products round by the number of rows
            probabilities = self._sets.of(softmax(self.logits(picture), 1))  # (windows, S)
            largest = probabilities.max(0).clip(_TINY, 1 - _TINY)
            odds[row, :count] = np.log10(largest / (1 - largest))
            if self.taught is not None:
                odds[row, count:] = self.taught.log_odds(features[row])
        odds[:, :count] = (odds[:, :count] - LOWEST_ODDS) / (HIGHEST_ODDS - LOWEST_ODDS)
        odds[:, count:] = (odds[:, count:] - LOWEST_ODDS) / (HIGHEST_TAUGHT - LOWEST_ODDS)
        return odds.clip(0, 1)


def softmax(logits: Floats, axis: int) -> Floats:
    """Return probabilities that add up to 1 along an axis."""
    powers = np.exp(logits - logits.max(axis, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis, keepdims=True)
    return probabilities


def windows(features: Floats) -> Floats:
    """Return the features of a picture's five windows: (B, REGIONS, F) -> (B, 5, F).

    The first is the whole picture. The others are two by two of its three by three regions: two
    thirds of its width and height.
    """
    grid = features[:, 1:].reshape(len(features), _SIDE, _SIDE, -1)  # (B, 3, 3, F)
    pairs = grid[:, :-1] + grid[:, 1:]
    squares = (pairs[:, :, :-1] + pairs[:, :, 1:]) / 4  # (B, 2, 2, F)
    four_windows = squares.reshape(len(features), 4, -1)
    return np.concatenate([features[:, :1], four_windows], 1)
