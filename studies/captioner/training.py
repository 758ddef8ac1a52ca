"""Learn to write captions from text alone: u is the point of the caption itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from hasse.lab.training.config import LARGEST_FACTOR
from hasse.lab.training.run import Run
from hasse.models.score import Score
from hasse.models.vocabulary import PADDING, UNKNOWN
from hasse.studies.captioner.corpus import Corpus, join_by_picture
from hasse.studies.captioner.language_model import NO_TAG, LanguageModel, LanguageModelConfig


@dataclass(frozen=True, slots=True)
class CaptionerTraining:
    """How to train.

    Attributes:
        epochs: maximum number of passes over the captions.
        batch_size: captions in a batch.
        learning_rate: of Adam at first; it falls to 0 along a cosine.
        drop: share of the factors and slices that a step leaves out.
        joined: share of the captions whose u is the join of all captions of their picture: near to
            the point of the picture, as it is in use. 0 is the paper's.
        min_word_count: rarer words are not written.
        seed: random seed.
    """

    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    epochs: int = 5
    batch_size: int = 64
    learning_rate: float = 2e-3
    drop: float = 0.05
    joined: float = 0.5
    min_word_count: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that no training can have (ValueError)."""
        if min(self.epochs, self.batch_size, self.min_word_count) < 1:
            raise ValueError("epochs, batch_size and min_word_count are at least 1")
        if not 0 < self.learning_rate <= LARGEST_FACTOR:
            raise ValueError(f"learning_rate is above 0 and at most {LARGEST_FACTOR:g}")
        if not (0 <= self.drop < 1 and 0 <= self.joined <= 1):
            raise ValueError("drop is at least 0 and below 1, joined from 0 to 1")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


class CaptionerRun(Run[NDArray[np.int64], float]):
    """The training of a language model, measured by its perplexity in validation.

    Attributes:
        best: the model as it was best in validation.
    """

    best: LanguageModel

    def __init__(
        self,
        config: CaptionerTraining,
        model: LanguageModel,
        train: Corpus,
        validation: Corpus,
        score: Score,
        save: Callable[[LanguageModel, float], object] = lambda model, perplexity: None,
    ) -> None:
        """Prepare the training; the model is changed. `save` gets the best one so far."""
        super().__init__(config.epochs, math.ceil(len(train) / config.batch_size))
        self.config, self.model, self.train, self.validation = config, model, train, validation
        self.joint = join_by_picture(train, score)
        self.of_joint = np.cumsum(np.diff(train.picture, prepend=train.picture[0]) != 0)
        self.save_best = save
        self.optimizer = torch.optim.Adam(model.parameters(), config.learning_rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimizer, config.epochs * self.steps
        )
        self.draw = np.random.default_rng([config.seed, 2])

    def begin(self) -> None:
        """Seed the draws of dropped factors."""
        torch.manual_seed(self.config.seed)

    def batches(self, epoch: int, first: int) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of the captions of each step."""
        order, size = self.draw.permutation(len(self.train)), self.config.batch_size
        yield from (order[start : start + size] for start in range(0, len(order), size))

    def step(self, epoch: int, step: int, batch: NDArray[np.int64]) -> Tensor:
        """Make the words of these captions likelier."""
        points = self.train.points[batch]
        joined = self.draw.random(len(batch)) < self.config.joined
        points[joined] = self.joint[self.of_joint[batch[joined]]]
        loss, count = nats(self.model, self.train, batch, points, self.config.drop)
        loss = loss / count
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def measure(self, loss: float) -> float:
        """Return the perplexity in validation."""
        return perplexity(self.model, self.validation)

    def quality(self, measurement: float) -> float:
        """Compare epochs by perplexity; lower is better."""
        return -measurement

    def save_model(self, measurement: float) -> None:
        """Copy and save the model."""
        self.best = copy.deepcopy(self.model)
        self.save_best(self.best, measurement)


def nats(
    model: LanguageModel,
    corpus: Corpus,
    rows: NDArray[np.int64],
    points: Tensor,
    drop: float = 0.0,
) -> tuple[Tensor, int]:
    """Return the negative log-likelihood of captions, and the number of their known words."""
    words = pad_sequence([corpus.words[row] for row in rows], True, PADDING)
    tags = pad_sequence([corpus.tags[row] for row in rows], True, NO_TAG)
    known = (words != PADDING) & (words != UNKNOWN)
    logits = model(words, tags, points, drop)
    return cross_entropy(logits[known], words[known], reduction="sum"), int(known.sum())


@torch.inference_mode()
def perplexity(model: LanguageModel, corpus: Corpus, batch_size: int = 256) -> float:
    """Return the perplexity per known word, each caption's u being its own point."""
    total, count = 0.0, 0
    for start in range(0, len(corpus), batch_size):
        rows = np.arange(start, min(start + batch_size, len(corpus)))
        loss, words = nats(model, corpus, rows, corpus.points[rows])
        total, count = total + float(loss), count + words
    return math.exp(total / max(1, count))
