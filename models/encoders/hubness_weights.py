"""The numbers that correct hubness, among the weights of a model that learns."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from hasse.models.encoders.hubness import KINDS, STEP, HubnessCorrection, Points
from hasse.models.score import Score


class HubnessWeights(nn.Module):
    """Fits and stores a `HubnessCorrection`; buffers are its fields.

    Before `fit`, `inverse_temperature` is 0 and points stay as they are.
    """

    images: Tensor
    captions: Tensor
    inverse_temperature: Tensor
    mean: Tensor
    spread: Tensor
    slope: Tensor

    def __init__(self, size: int, dimension: int, score: Score) -> None:
        super().__init__()
        self.score: Score = score
        for kind in ("images", "captions"):
            self.register_buffer(kind, torch.zeros(size, dimension))
        self.register_buffer("inverse_temperature", torch.zeros(()))
        for fact in ("mean", "spread", "slope"):
            self.register_buffer(fact, torch.zeros(2))

    def correction(self, *, one_off: bool = False) -> HubnessCorrection | None:
        """Return the correction with the numbers of now; None before `fit`."""
        if not self.inverse_temperature:
            return None
        return self._now(one_off=one_off)

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
        correction = self._now()
        for at, (kind, points) in enumerate(zip(KINDS, (images, captions), strict=True)):
            others: Points = points[size:].cpu().numpy()
            found = correction.biases(others, kind)
            self.mean[at], self.spread[at] = float(found.mean()), float(found.std(ddof=1))
            factor = np.float32(math.exp(STEP))
            longer = correction.biases(others * factor, kind)
            shorter = correction.biases(others / factor, kind)
            self.slope[at] = float((longer - shorter).mean()) / (2 * STEP)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        for points in (self.images, self.captions):
            points.copy_(points[:, order])

    def _now(self, *, one_off: bool = False) -> HubnessCorrection:
        weights = {name: value.cpu().numpy() for name, value in self.state_dict().items()}
        return HubnessCorrection.of(self.score, weights, one_off=one_off)
