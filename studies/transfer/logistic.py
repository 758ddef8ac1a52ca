"""Logistic regression on fixed features, with a penalty on the length of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

PENALTIES = (0.1, 0.01, 0.001, 0.0001)
_STEPS = 60

Features = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """Weights for features that were scaled to mean 0 and variance 1 in training."""

    mean: Tensor
    scale: Tensor
    weight: Tensor  # (classes, F)
    bias: Tensor

    @classmethod
    def fit(cls, features: Features, targets: Features, penalty: float) -> Self:
        """Minimise the mean cross-entropy plus penalty / 2 times the squared weights, by L-BFGS.

        Args:
            features: (n, F).
            targets: (n, classes), the share of each class.
            penalty: at least 0.
        """
        x, y = torch.from_numpy(features), torch.from_numpy(targets)
        mean, scale = x.mean(0), x.std(0).clamp(min=1e-6)
        x = (x - mean) / scale
        weight = torch.zeros(y.shape[1], x.shape[1], requires_grad=True)
        bias = torch.zeros(y.shape[1], requires_grad=True)
        search = torch.optim.LBFGS(
            [weight, bias], max_iter=_STEPS, history_size=10, line_search_fn="strong_wolfe"
        )

        def loss() -> float:
            search.zero_grad()
            total = cross_entropy(x @ weight.T + bias, y) + penalty / 2 * weight.square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return float(total.detach())

        search.step(loss)  # type: ignore[no-untyped-call]
        return cls(mean, scale, weight.detach(), bias.detach())

    def probabilities(self, features: Features) -> Features:
        """Return how likely each class is: (n, F) -> (n, classes)."""
        x = (torch.from_numpy(features) - self.mean) / self.scale
        shares: Features = (x @ self.weight.T + self.bias).softmax(1).numpy()
        return shares
