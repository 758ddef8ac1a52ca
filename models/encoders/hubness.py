"""Correct hubness by the lengths of points.

In many dimensions some points, hubs, are near to all others (Radovanović et al., "Hubs in Space",
2010): an image that fits every caption, a caption that is nearly true of every image. Ranked by
violations they come first everywhere, before the true ones. The bias of a point p measures how
near it is to reference points of the other kind, which are from the training data:

    b(p) = -1/s log mean exp(-s E)        over the references; s is the loss's inverse temperature

It is least for a hub. Subtracting it from the violations is querybank normalisation (Bogolin et
al., "Cross Modal Retrieval with Querybank Normalisation", 2022). In an order the points can carry
it: a shorter image and a longer caption violate more. So a unit point gets the length

    log length = -SHARE (b - mean) / slope

`mean` is that of b over images, or captions, of the training, and `slope` is the change of b with
the logarithm of the length. A bias farther than `SPREADS` standard deviations from the mean counts
as that far: a picture unlike all others must not come near to every caption.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from hasse.models.order import pairwise_violation
from hasse.models.score import Score

Kind: TypeAlias = Literal["image", "caption"]

# Chosen on Flickr8k: shares from 0.5 to 0.9 and spreads from 1.5 on differ little.
SHARE, SPREADS = 0.7, 2.0
_STEP = math.log(1.05)  # change of a length's logarithm that the slope is measured over
_KINDS: tuple[Kind, Kind] = ("image", "caption")


class HubnessCorrection(nn.Module):
    """Gives unit points the lengths that correct hubness.

    Attributes:
        images, captions: (R, N), the reference points, of unit length.
        inverse_temperature: s; 0 before `fit`, when points stay as they are.
        mean, spread, slope: (2,), of the biases of images and of captions.
        block: points that are compared with the references at one time.
    """

    images: Tensor
    captions: Tensor
    inverse_temperature: Tensor
    mean: Tensor
    spread: Tensor
    slope: Tensor

    def __init__(self, size: int, dimension: int, score: Score, block: int = 1024) -> None:
        super().__init__()
        self.score: Score = score
        self.block = block
        for kind in ("images", "captions"):
            self.register_buffer(kind, torch.zeros(size, dimension))
        self.register_buffer("inverse_temperature", torch.zeros(()))
        for fact in ("mean", "spread", "slope"):
            self.register_buffer(fact, torch.zeros(2))
        self._negated: Tensor | None = None

    @torch.no_grad()
    def fit(self, images: Tensor, captions: Tensor, inverse_temperature: float) -> None:
        """Take the first R points of either kind as references, and measure biases on the rest.

        Args:
            images, captions: (R + S, N), of unit length; S at least 2.
            inverse_temperature: of the loss that the points were learned by, above 0.
        """
        size = len(self.images)
        self.images.copy_(images[:size])
        self.captions.copy_(captions[:size])
        self.inverse_temperature.fill_(inverse_temperature)
        for at, (kind, points) in enumerate(zip(_KINDS, (images, captions), strict=True)):
            others = points[size:].to(self.images.device)
            found = self.biases(others, kind)
            self.mean[at], self.spread[at] = found.mean(), found.std()
            longer = self.biases(others * math.exp(_STEP), kind)
            shorter = self.biases(others * math.exp(-_STEP), kind)
            self.slope[at] = (longer - shorter).mean() / (2 * _STEP)

    def biases(self, points: Tensor, kind: Kind) -> Tensor:
        """Return b of points of a kind: (B, N) -> (B,)."""
        s = self.inverse_temperature
        found = [
            math.log(len(self.images)) - torch.logsumexp(-s * self._penalties(block, kind), 1)
            for block in torch.split(points, self.block)
        ]
        return torch.cat(found) / s

    def correct(self, points: Tensor, kind: Kind) -> Tensor:
        """Give unit points their corrected lengths: (B, N) -> (B, N).

        A point's bits do not depend on the points beside it, except for the score cosine.
        """
        if not len(points) or not self.inverse_temperature:
            return points
        at = _KINDS.index(kind)
        bound = SPREADS * self.spread[at]
        beyond = (self.biases(points, kind) - self.mean[at]).clamp(-bound, bound)
        return points * (-SHARE * beyond / self.slope[at]).exp()[:, None]

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        for points in (self.images, self.captions):
            points.copy_(points[:, order])

    def for_inference(self) -> None:
        """Prepare for many comparisons; the references may not change any longer."""
        if self.score != "cosine":
            self._negated = -(self.images if self.score == "order" else self.captions)

    def _penalties(self, points: Tensor, kind: Kind) -> Tensor:
        """Compare points with the references of the other kind: (b, N) -> (b, R)."""
        references = self.captions if kind == "image" else self.images
        if self.score == "cosine":
            return 1 - points @ references.T
        if (kind == "image") == (self.score == "order"):
            return pairwise_violation(points, references)
        # E(x, y) = E(-y, -x): a few points come first, as the kernel reads many second ones best.
        negated = -references if self._negated is None else self._negated
        return pairwise_violation(-points, negated)
