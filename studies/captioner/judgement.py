"""Predict whether a generated caption is true, by a network trained on known truth.

A calibration is fitted to the captions of a collection. Generated captions are harder to judge,
because the language model chooses words that fit the picture.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hasse.models.embedding_model import Points
from hasse.studies.captioner.captioner import Candidates

Floats = NDArray[np.float64]
FACTS, HIDDEN = 8, 128


class JudgementInputs(NamedTuple):
    """Inputs of a judgement: points of the picture (N,) and of texts (C, N), and their facts.

    Facts (C, FACTS) are the violation, how much of the picture the text leaves out, two logarithms
    (of the share of other pictures that the text is true of, and of its number of words), the
    evidence, and the fluency.
    """

    picture: NDArray[np.float32]
    points: Points
    facts: Floats


def judgement_inputs(
    picture: NDArray[np.float32],
    candidates: Candidates,
    points: Points,
    violations: Floats,
    shares: Floats,
) -> JudgementInputs:
    """Gather the inputs of a judgement."""
    distances = np.square(picture - points).sum(1)
    words = [len(text.split()) for text in candidates.texts]
    columns = (violations, distances - violations, np.log(shares + 1e-9), np.log(words))
    facts = np.column_stack((*columns, candidates.evidence, candidates.fluency))
    return JudgementInputs(picture, points, facts.astype(np.float64))


class Judgement(nn.Module):
    """A network of one hidden layer.

    Its inputs are the facts, where the text exceeds the picture, and the meet of both.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, dimension: int) -> None:
        """Make a network for points of that many coordinates."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(FACTS))
        self.register_buffer("spread", torch.ones(FACTS))
        self.linear = nn.Linear(FACTS, 1)
        self.hidden = nn.Sequential(
            nn.Linear(FACTS + 2 * dimension, HIDDEN),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(HIDDEN, 1),
        )

    def forward(self, pictures: Tensor, points: Tensor, facts: Tensor) -> Tensor:
        """Return the logits of truth: (C, N) or (1, N), (C, N), (C, FACTS) -> (C,)."""
        facts = (facts - self.mean) / self.spread
        scale = math.sqrt(points.shape[1])  # of a coordinate about 1
        shortfall = scale * (points - pictures).clamp(min=0)
        meet = scale * torch.minimum(points, pictures)
        logits = self.linear(facts) + self.hidden(torch.cat((facts, shortfall, meet), 1))
        return torch.as_tensor(logits[:, 0])

    @torch.inference_mode()
    def probability(self, inputs: JudgementInputs) -> Floats:
        """Return the probability that each text is true: (C,)."""
        pictures, points = torch.from_numpy(inputs.picture[None]), torch.from_numpy(inputs.points)
        logits: Tensor = self(pictures, points, torch.from_numpy(inputs.facts).float())
        probabilities: Floats = logits.sigmoid().double().numpy()
        return probabilities
