"""The hubness correction among the weights of a model."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from hasse.models.encoders.hubness import KINDS, STEP, HubnessCorrection, Points
from hasse.models.score import Score


class HubnessWeights(nn.Module):
    """Fits and stores a `HubnessCorrection`; its fields are buffers.

    Before `fit`, `inverse_temperature` is 0 and points are not corrected.
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

    def correction(self) -> HubnessCorrection | None:
        """Return the correction with the current weights; None before `fit`."""
        return self._current() if self.inverse_temperature else None

    @torch.no_grad()
    def fit(self, images: Tensor, captions: Tensor, inverse_temperature: float) -> None:
        """Use the first R points of each kind as references, and measure biases of the rest.

        Args:
            images, captions: (R + S, N), of unit length; S at least 2.
            inverse_temperature: of the loss of the training, above 0.
        """
        size = len(self.images)
        self.images.copy_(images[:size])
        self.captions.copy_(captions[:size])
        self.inverse_temperature.fill_(inverse_temperature)
        correction = self._current()
        for at, (kind, points) in enumerate(zip(KINDS, (images, captions), strict=True)):
            rest: Points = points[size:].cpu().numpy()
            biases = correction.biases(rest, kind)
            self.mean[at], self.spread[at] = float(biases.mean()), float(biases.std(ddof=1))
            factor = np.float32(math.exp(STEP))
            longer = correction.biases(rest * factor, kind)
            shorter = correction.biases(rest / factor, kind)
            self.slope[at] = float((longer - shorter).mean()) / (2 * STEP)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Permute the coordinates in place: new coordinate i is old coordinate order[i]."""
        for points in (self.images, self.captions):
            points.copy_(points[:, order])

    def _current(self) -> HubnessCorrection:
        weights = {name: value.cpu().numpy() for name, value in self.state_dict().items()}
        return HubnessCorrection.of(self.score, weights)
