"""Evidence that a picture shows one of a set of classes, by a network's own classifier.

A set is a synset of WordNet, with all classes below it, or a code: classes put together at random.
Each class is in three codes, so that a few coordinates tell a thousand classes apart. The evidence
of a set is the largest sum of the probabilities of its classes over the whole picture and four
overlapping windows of it. So the evidence of a set is at most that of a set which contains it: a
poodle's is at most a dog's, and a dog's at most an animal's, exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hasse.models.encoders.names import LITE
from hasse.models.encoders.weights import BackboneError

# Logarithms to the base 10 of the odds that become 0 and 1.
LEAST, MOST = -3.0, 3.0
_TINY = 1e-6
_ACROSS = 3  # regions of a picture beside each other


class Evidence(nn.Module):
    """Reads the evidence of sets of classes off features of regions.

    Attributes:
        sets: (classes, K), 1 where a class is in a set.
        weight, bias: of the classifier, (classes, F) and (classes,).
    """

    sets: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, sets: Tensor, classifier: tuple[Tensor, Tensor]) -> None:
        """Take sets of classes, and a classifier.

        Raises:
            BackboneError: the classifier has another number of classes.
        """
        super().__init__()
        weight, bias = classifier
        if len(weight) != len(sets):
            raise BackboneError(
                f"the network tells {len(weight):,} classes apart and the model {len(sets):,}: "
                f"it was grounded in another network"
            )
        self.register_buffer("sets", sets.float(), persistent=False)
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return evidence between 0 and 1: (B, REGIONS, F) -> (B, K)."""
        logits = windows(features) @ self.weight.T + self.bias  # (B, windows, classes)
        largest = (logits.softmax(-1) @ self.sets).amax(1).clamp(_TINY, 1 - _TINY)
        odds = torch.log10(largest / (1 - largest))
        return ((odds - LEAST) / (MOST - LEAST)).clamp(0, 1)


def windows(features: Tensor) -> Tensor:
    """Return the features of the whole and of four windows of two by two regions of three by three.

    (B, REGIONS, F) -> (B, 5, F). A window is two thirds of the picture's width and height.
    """
    grid = features[:, 1:].reshape(len(features), _ACROSS, _ACROSS, -1)  # (B, 3, 3, F)
    below = grid[:, :-1] + grid[:, 1:]
    square = (below[:, :, :-1] + below[:, :, 1:]) / 4  # (B, 2, 2, F)
    return torch.cat([features[:, :1], square.flatten(1, 2)], 1)


def classifier_of(backbone: str) -> tuple[Tensor, Tensor]:
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
