"""Learn a hierarchy from a part of its edges (Vendrov et al., section 3).

The loss is the paper's (equation 4): the penalty of true pairs, and for false pairs what they
lack to the margin. One thing differs. The violation of a false pair that is in order is 0, and
so is its gradient: equation 4 never parts what has once slipped into order. For false pairs the
violation's root, which is the distance of `below` from all that is in order with `above`, is
therefore continued inside with a minus sign, as the way that is left to the border.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hasse.lab.training.run import set_learning_rate
from hasse.studies.hypernyms.embedding import Comparison, ConceptEmbedding
from hasse.studies.hypernyms.task import PairSet, Task, corrupt
from hasse.studies.hypernyms.taxonomy import Edges, closure
from hasse.studies.labelled_pairs import Accuracy, Labels, PairRun, Penalties

# Of WordNet's 82,115 concepts. Their points are 1.3 GB then, of which learning keeps four.
MOST_COORDINATES = 4096


@dataclass(frozen=True, slots=True)
class HypernymTraining:
    """How to train.

    Attributes:
        dimension: N.
        margin: smallest distance to order that false pairs are pushed to.
        epochs: maximum number of passes over the true pairs.
        batch_size: true pairs in a batch.
        negatives: false pairs to each true one, drawn anew each time.
        specific: how often the more specific end of a true pair is replaced to make a false
            one. Most concepts have nothing below them, so another general end teaches little.
        learning_rate: of Adam, falling to zero in a straight line.
        seed: random seed, also of the split.
    """

    comparison: Comparison = "order"
    dimension: int = 50
    margin: float = 1.0
    epochs: int = 10
    batch_size: int = 2000
    negatives: int = 4
    specific: float = 0.95
    learning_rate: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that no training can have (ValueError)."""
        if min(self.dimension, self.epochs, self.batch_size, self.negatives) < 1:
            raise ValueError("dimension, epochs, batch_size and negatives are at least 1")
        if self.dimension > MOST_COORDINATES:
            raise ValueError(f"dimension is at most {MOST_COORDINATES:,}")
        if not (0 < self.margin < math.inf and 0 < self.learning_rate < math.inf):
            raise ValueError("margin and learning_rate are above 0")
        if not 0 <= self.specific <= 1:
            raise ValueError("specific is a share, from 0 to 1")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


PRESETS: Mapping[Comparison, HypernymTraining] = {
    "order": HypernymTraining(),
    "symmetric": HypernymTraining(comparison="symmetric", learning_rate=0.01),
    "bilinear": HypernymTraining(comparison="bilinear", learning_rate=0.01),
}


class HypernymRun(PairRun[tuple[Edges, Edges], ConceptEmbedding]):
    """The training of a table of concepts, from the edges of a task and those that they imply."""

    def __init__(self, config: HypernymTraining, task: Task) -> None:
        self.config, self.task = config, task
        self.model = ConceptEmbedding.random(
            config.comparison, task.concepts, config.dimension, config.seed
        )
        self.draw = np.random.default_rng([config.seed, 1])
        relation = self.model.relation
        # Moments of a concept move only when a batch has it: the cost is that of the batch.
        self.optimizer = torch.optim.SparseAdam([self.model.points])
        self.relation_optimizer = None if relation is None else torch.optim.Adam([relation])
        self.edges = inferred(task.train)
        self.known = PairSet(self.edges, task.concepts)
        super().__init__(config.epochs, math.ceil(len(self.edges) / config.batch_size))

    def batches(self, epoch: int, first: int) -> Iterator[tuple[Edges, Edges]]:
        """Yield true pairs, and false ones made of them."""
        config = self.config
        order = self.draw.permutation(len(self.edges))
        for start in range(0, len(order), config.batch_size):
            true = self.edges[order[start : start + config.batch_size]]
            repeated = true.repeat(config.negatives, 0)
            yield (
                true,
                corrupt(repeated, self.task.concepts, self.draw, self.known, config.specific),
            )

    def rate(self, epoch: int, step: int) -> float:
        """Return the learning rate of a step."""
        done = (epoch * self.steps + step) / (self.epochs * self.steps)
        return self.config.learning_rate * (1 - done)

    def step(self, epoch: int, step: int, batch: tuple[Edges, Edges]) -> Tensor:
        """Move the points of a batch, and the relation if there is one, against the loss."""
        model, rate = self.model, self.rate(epoch, step)
        pairs = torch.from_numpy(np.concatenate(batch))
        rows, which = torch.unique(pairs.T, return_inverse=True)  # which: (2, B)
        points = model.points.index_select(0, rows).requires_grad_()
        learned: list[Tensor] = [points]
        if model.relation is not None:
            learned.append(model.relation.requires_grad_())
        below, above = (points.index_select(0, side) for side in which)
        loss = self._loss(below, above, len(batch[0]))
        gradients = torch.autograd.grad(loss, learned)
        shape = model.points.shape
        model.points.grad = torch.sparse_coo_tensor(
            rows[None], gradients[0], shape, is_coalesced=True, check_invariants=False
        )
        _descend(self.optimizer, rate)
        if model.comparison == "order":
            model.points.index_copy_(0, rows, model.points.index_select(0, rows).clamp_(min=0))
        if model.relation is not None and self.relation_optimizer is not None:
            model.relation.requires_grad_(False).grad = gradients[1]
            _descend(self.relation_optimizer, rate)
        return loss.detach() / len(pairs)

    def _loss(self, below: Tensor, above: Tensor, true: int) -> Tensor:
        """Sum the loss of a batch whose first pairs are true: (B, N), (B, N) -> ()."""
        model = self.model
        pull = model.compare(below[:true], above[:true]).clamp(min=0).sum()
        compare = distance_to_order if model.comparison == "order" else model.compare
        push = (self.config.margin - compare(below[true:], above[true:])).clamp(min=0).sum()
        return pull + push

    def validate(self) -> tuple[Penalties, Labels]:
        """Compare the validation pairs."""
        held = self.task.validation
        return self.model.penalties(held.pairs), held.true


def _descend(optimizer: torch.optim.Optimizer, rate: float) -> None:
    set_learning_rate(optimizer, rate)
    optimizer.step()
    optimizer.zero_grad()


def inferred(edges: Edges) -> Edges:
    """Add to edges (n, 2) what follows from them by transitivity."""
    unknown = closure(np.unique(edges, axis=0))
    size = int(edges.max()) + 1
    return np.concatenate((edges, unknown[~PairSet(edges, size).holds(unknown)]))


def distance_to_order(below: Tensor, above: Tensor) -> Tensor:
    """Return how far pairs are from order, below 0 for those in it: (B, N), (B, N) -> (B,)."""
    gap = above - below
    widest = gap.amax(-1)
    outside = gap.clamp(min=0).square().sum(-1)
    # The root has no gradient at 0; `where` would multiply the infinite one by 0.
    return torch.where(widest > 0, outside.clamp(min=1e-12).sqrt(), widest)


def evaluate(model: ConceptEmbedding, threshold: float, task: Task) -> Accuracy:
    """Measure a model on the test pairs, with a threshold chosen on others."""
    return Accuracy.at(threshold, task.test.true, model.penalties(task.test.pairs))


def evaluate_closure(task: Task) -> Accuracy:
    """Measure the baseline that learns nothing: a pair is true if it follows by transitivity.

    As in the paper, from the true pairs of training and validation together.
    """
    known = np.concatenate((task.train, task.validation.pairs[task.validation.true]))
    called = PairSet(closure(np.unique(known, axis=0)), task.concepts).holds(task.test.pairs)
    return Accuracy.of(called == task.test.true, task.test.true)
