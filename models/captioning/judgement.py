"""Tell whether a caption that a model wrote is true, learned where that is known.

A calibration knows the captions of a collection. Written ones are harder to judge: the model that
wrote them has chosen words that fit the picture. Where the truth of any text is known, as it is for
drawn scenes, a logistic regression learns from captions written for validation pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from models.captioning.captioner import Candidates
from models.model import Points

Floats = NDArray[np.float64]
_SHRINKAGE = 1e-4


@dataclass(frozen=True, slots=True)
class Judgement:
    """A logistic regression on `features`: weights, and last the bias."""

    weights: tuple[float, ...]

    def probability(self, seen: Floats) -> Floats:
        """Return the probability of truth for features (C, 8): (C,)."""
        logits = seen @ np.array(self.weights[:-1]) + self.weights[-1]
        probability: Floats = 1 / (1 + np.exp(-logits))
        return probability

    @classmethod
    def learn(cls, seen: Floats, true: Sequence[bool]) -> Judgement:
        """Fit a regression to features (C, 8) and truths (C,)."""
        mean, spread = seen.mean(0), seen.std(0) + 1e-9
        known = torch.from_numpy((seen - mean) / spread)
        labels = torch.tensor(true, dtype=torch.float64)
        weights = torch.zeros(seen.shape[1] + 1, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            found = binary_cross_entropy_with_logits(known @ weights[:-1] + weights[-1], labels)
            found = found + _SHRINKAGE * weights.square().sum()
            found.backward()  # type: ignore[no-untyped-call]
            return found

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        fitted = weights.detach().numpy()
        plain = fitted[:-1] / spread
        return cls((*plain.tolist(), float(fitted[-1] - plain @ mean)))


def features(
    picture: NDArray[np.float32],
    candidates: Candidates,
    points: Points,
    violations: Floats,
    shares: Floats,
) -> Floats:
    """Return what truth is told by: (C, 8).

    It is the violation, how much of the picture the text leaves out, the logarithms of the share of
    other pictures that the text is true of and of its number of words, the evidence, and how well
    it reads.
    """
    distances = np.square(picture - points).sum(1)
    words = [len(text.split()) for text in candidates.texts]
    columns = (violations, distances - violations, np.log(shares + 1e-9), np.log(words))
    seen = (*columns, candidates.evidence, candidates.fluency)
    return np.column_stack(seen).astype(np.float64)
