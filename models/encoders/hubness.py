"""Correct hubness by the lengths of points.

In many dimensions some points, hubs, are near to all others (Radovanović et al., "Hubs in Space",
2010): an image that fits every caption, a caption that is nearly true of every image. Ranked by
violations, hubs come first for every query, before the true items. The bias of a point p measures
how near it is to reference points of the other kind, which are from the training data:

    b(p) = -1/s log mean exp(-s E)        over the references; s is the loss's inverse temperature

It is lowest for a hub. Subtracting it from the violations is querybank normalisation (Bogolin et
al., "Cross Modal Retrieval with Querybank Normalisation", 2022). In an order, lengths of points can
do the same: a shorter image and a longer caption violate more. So a unit point gets the length

    log length = -SHARE (b - mean) / slope

`mean` is the mean of b over images, or captions, of the training, and `slope` is the change of b
with the logarithm of the length. Biases are limited to `SPREADS` standard deviations from the mean,
so that a picture unlike all others does not come near to every caption.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.order import violation
from hasse.models.score import Score

Kind: TypeAlias = Literal["image", "caption"]
Points: TypeAlias = NDArray[np.float32]

# Chosen on Flickr8k: shares from 0.5 to 0.9 and spreads from 1.5 on differ little.
SHARE, SPREADS = 0.7, 2.0
STEP = math.log(1.05)  # change of a length's logarithm, to measure the slope
KINDS: tuple[Kind, Kind] = ("image", "caption")
_BLOCK = 1024  # points compared with the references at a time
_CACHED = 128  # references that fit in a core's cache, in numpy


@dataclass(frozen=True, eq=False)
class HubnessCorrection:
    """Corrects hubness by scaling unit points to other lengths.

    Attributes:
        images, captions: (R, N), the reference points, of unit length.
        inverse_temperature: s, above 0.
        mean, spread, slope: (2,), of the biases of images and of captions.
        one_off: whether to correct a few points only, in numpy.
    """

    score: Score
    images: Points
    captions: Points
    inverse_temperature: float
    mean: Points
    spread: Points
    slope: Points
    one_off: bool = False

    @classmethod
    def of(cls, score: Score, weights: Mapping[str, Points], *, one_off: bool = False) -> Self:
        """Make the correction from a model's weights, which have the names of the fields."""
        images, captions = weights["images"], weights["captions"]
        mean, spread, slope = (weights[name] for name in ("mean", "spread", "slope"))
        temperature = float(weights["inverse_temperature"])
        return cls(score, images, captions, temperature, mean, spread, slope, one_off)

    def biases(self, points: Points, kind: Kind) -> Points:
        """Return the biases b of points of a kind: (B, N) -> (B,)."""
        s = np.float32(self.inverse_temperature)
        log_sums = np.empty(len(points), np.float32)
        for start in range(0, len(points), _BLOCK):
            powers = -s * self._penalties(points[start : start + _BLOCK], kind)
            largest = powers.max(1)
            total = np.exp(powers - largest[:, None]).sum(1)
            log_sums[start : start + _BLOCK] = -(np.log(total) + largest)
        return (log_sums + np.float32(math.log(len(self.images)))) / s

    def correct(self, points: Points, kind: Kind) -> Points:
        """Scale unit points to their corrected lengths: (B, N) -> (B, N).

        A point's bits do not depend on the batch, except for the score cosine.
        """
        at = KINDS.index(kind)
        bound = np.float32(SPREADS) * self.spread[at]
        offset = np.clip(self.biases(points, kind) - self.mean[at], -bound, bound)
        corrected: Points = points * np.exp(np.float32(-SHARE) * offset / self.slope[at])[:, None]
        return corrected

    def _penalties(self, points: Points, kind: Kind) -> Points:
        """Return the penalties of points with references of the other kind: (b, N) -> (b, R)."""
        references = self.captions if kind == "image" else self.images
        if self.score == "cosine":
            compared: Points = 1 - points @ references.T
            return compared
        if (kind == "image") == (self.score == "order"):
            return self._violations(np.ascontiguousarray(points), references)
        # E(x, y) = E(-y, -x): the kernel is faster with the few points first.
        return self._violations(-points, self._negated)

    def _violations(self, few: Points, many: Points) -> Points:
        if self.one_off:
            return _violations_of_few(few, many)
        from hasse.models.kernels import cpu_violations

        return cpu_violations.violations(few, many)

    @cached_property
    def _negated(self) -> Points:
        negated: Points = -(self.images if self.score == "order" else self.captions)
        return negated


def _violations_of_few(x: Points, y: Points) -> Points:
    """Return the matrix of E(x[b], y[c]), in numpy: -> (B, C)."""
    out = np.empty((len(x), len(y)), np.float32)
    for at in range(0, len(y), _CACHED):
        for b, point in enumerate(x):
            out[b, at : at + _CACHED] = violation(point, y[at : at + _CACHED])
    return out
