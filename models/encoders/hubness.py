"""Lengths that even out hubs.

Among many dimensions some points are near to all others (Radovanović et al., "Hubs in Space",
2010): an image that fits every caption, a caption that is nearly true of every image. Ranked by
violations they come first everywhere, before what is true. How near a point is to everything is
told by a crowd, points of the other kind that training has seen:

    b(p) = -1/s log mean exp(-s E)        over the crowd; s is the sharpness of the loss

is least for a hub. To take it off the violations is querybank normalisation (Bogolin et al.,
"Cross Modal Retrieval with Querybank Normalisation", 2022). In an order the points can say so
themselves: a shorter image and a longer caption violate more. So the unit points get the length

    log length = -SHARE (b - mean) / slope

where `mean` is that of b over images, or captions, which training has seen, and `slope` is how b
changes with the logarithm of their length. What is farther from the mean than `SPREADS` standard
deviations counts as so far: a picture like none before is not to come near to every caption.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor, nn

from models.score import Score, penalties

if TYPE_CHECKING:
    from models.kernels.cpu_violations import Laid

Kind: TypeAlias = Literal["image", "caption"]

# Chosen on Flickr8k: shares from 0.5 to 0.9 and spreads from 1.5 on differ little.
SHARE, SPREADS = 0.7, 2.0
_STEP = math.log(1.05)  # of a length's logarithm, to find the slope by
_BLOCK = 1024  # points that meet the crowd at one time
_KINDS: tuple[Kind, Kind] = ("image", "caption")


class Crowd(nn.Module):
    """Points of images and captions, and what is near to them.

    Attributes:
        images, captions: (R, N), of unit length.
        sharpness: s; 0 before there is a crowd, when lengths stay what they are.
        mean, spread, slope: (2,), of images and of captions that are not in the crowd.
    """

    images: Tensor
    captions: Tensor
    sharpness: Tensor
    mean: Tensor
    spread: Tensor
    slope: Tensor

    def __init__(self, size: int, dimension: int, score: Score) -> None:
        super().__init__()
        self.score: Score = score
        for kind in ("images", "captions"):
            self.register_buffer(kind, torch.zeros(size, dimension))
        self.register_buffer("sharpness", torch.zeros(()))
        for fact in ("mean", "spread", "slope"):
            self.register_buffer(fact, torch.zeros(2))
        self._laid: tuple[Laid, Laid] | None = None  # what images, and captions, are compared with

    @torch.no_grad()
    def gather(self, images: Tensor, captions: Tensor, sharpness: float) -> None:
        """Take the first R points of either kind for the crowd, and learn from those after them.

        Args:
            images, captions: (R + S, N), of unit length; S at least 2.
            sharpness: of the loss that the points were learned by, above 0.
        """
        size = len(self.images)
        self.images.copy_(images[:size])
        self.captions.copy_(captions[:size])
        self.sharpness.fill_(sharpness)
        for at, (kind, points) in enumerate(zip(_KINDS, (images, captions), strict=True)):
            others = points[size:].to(self.images.device)
            found = self.nearness(others, kind)
            self.mean[at], self.spread[at] = found.mean(), found.std()
            longer = self.nearness(others * math.exp(_STEP), kind)
            shorter = self.nearness(others * math.exp(-_STEP), kind)
            self.slope[at] = (longer - shorter).mean() / (2 * _STEP)

    def nearness(self, points: Tensor, kind: Kind) -> Tensor:
        """Return b of points of a kind: (B, N) -> (B,)."""
        return torch.cat([self._nearness(block, kind) for block in torch.split(points, _BLOCK)])

    def even(self, points: Tensor, kind: Kind) -> Tensor:
        """Give points of unit length the length that evens out how near they are: (B, N).

        A point's is the same bits whichever points are beside it, but for the score cosine.
        """
        if not len(points) or not self.sharpness:
            return points
        at = _KINDS.index(kind)
        bound = SPREADS * self.spread[at]
        beyond = (self.nearness(points, kind) - self.mean[at]).clamp(-bound, bound)
        return points * (-SHARE * beyond / self.slope[at]).exp()[:, None]

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        for points in (self.images, self.captions):
            points.copy_(points[:, order])

    def for_inference(self) -> None:
        """Lay the crowd out for many comparisons on a CPU; it may not change any longer."""
        if self.score != "cosine" and self.images.device.type == "cpu":
            # Of numba, which machines that only learn may lack.
            from models.kernels.cpu_violations import Laid

            self._laid = Laid(self.captions), Laid(self.images)

    def _nearness(self, points: Tensor, kind: Kind) -> Tensor:
        penalty = self._penalties(points, kind)  # (b, R)
        told = torch.logsumexp(-self.sharpness * penalty, 1) - math.log(penalty.shape[1])
        return -told / self.sharpness

    def _penalties(self, points: Tensor, kind: Kind) -> Tensor:
        """Compare points with the crowd of the other kind: (b, N) -> (b, R)."""
        if self._laid is not None:
            others = self._laid[_KINDS.index(kind)]
            if (kind == "image") == (self.score == "order"):
                return others.above(points)
            return others.below(points).T.contiguous()
        if kind == "image":
            return penalties(self.score, points, self.captions)
        return penalties(self.score, self.images, points).T.contiguous()
