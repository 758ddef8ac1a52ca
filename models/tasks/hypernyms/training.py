"""Learn a hierarchy from a part of its edges (Vendrov et al., section 3).

The loss is the paper's (equation 4): the penalty of true pairs, and for false pairs what they
lack to the margin. One thing differs. The violation of a false pair that is in order is 0, and
so is its gradient: equation 4 never parts what has once slipped into order. For false pairs the
violation's root, which is the distance of `below` from all that is in order with `above`, is
therefore continued inside with a minus sign, as the way that is left to the border.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from models.evaluation.threshold import Threshold, best_threshold
from models.tasks.hypernyms.embedding import Comparison, ConceptEmbedding
from models.tasks.hypernyms.table_adam import TableAdam
from models.tasks.hypernyms.task import PairSet, Task, corrupt
from models.tasks.hypernyms.taxonomy import Edges, closure

# Of WordNet's 82,115 concepts. Their points are 1.3 GB then, of which learning keeps four.
MOST_COORDINATES = 4096


@dataclass(frozen=True, slots=True)
class HypernymTraining:
    """How to train.

    Attributes:
        dimension: N.
        margin: how far a false pair is to be from true.
        epochs: passes over the true pairs; the one best in validation is kept.
        batch_size: true pairs in a batch.
        negatives: false pairs to each true one, drawn anew each time.
        specific: how often the more specific end of a true pair is replaced to make a false
            one. Most concepts have nothing below them, so another general end teaches little.
        learning_rate: Adam's, falling to zero in a straight line.
        seed: of everything random.
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
        """Refuse what cannot be trained with (ValueError)."""
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


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training is; `threshold` is there after the last step of an epoch."""

    epoch: int
    step: int
    steps: int
    threshold: Threshold | None = None


Report = Callable[[Progress], None]


def preset(
    comparison: Comparison,
    *,
    dimension: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
) -> HypernymTraining:
    """Return a training that works well for a comparison; what is None is left to it."""
    config = PRESETS[comparison]
    return replace(
        config,
        dimension=dimension or config.dimension,
        epochs=epochs or config.epochs,
        seed=seed,
    )


def train(
    config: HypernymTraining, task: Task, report: Report | None = None
) -> tuple[ConceptEmbedding, Threshold]:
    """Learn a table from the edges of a task, and from what follows from them.

    Returns:
        The best epoch's, with its threshold.
    """
    model = ConceptEmbedding.random(config.comparison, task.concepts, config.dimension, config.seed)
    draw = np.random.default_rng([config.seed, 1])
    optimizer = TableAdam(model.points)
    of_relation = None if model.relation is None else TableAdam(model.relation)
    edges = inferred(task.train)
    known = PairSet(edges, task.concepts)
    steps = math.ceil(len(edges) / config.batch_size)
    best = Threshold(0.0, -1.0)
    kept, kept_relation = model.points, model.relation
    for epoch in range(config.epochs):
        order = draw.permutation(len(edges))
        for step in range(steps):
            rows = order[step * config.batch_size : (step + 1) * config.batch_size]
            true = edges[rows]
            repeated = true.repeat(config.negatives, 0)
            false = corrupt(repeated, task.concepts, draw, known, config.specific)
            rate = config.learning_rate * (1 - (epoch * steps + step) / (config.epochs * steps))
            _step(model, true, false, config, (optimizer, of_relation), rate)
            if report is not None:
                report(Progress(epoch, step + 1, steps))
        held = task.validation
        threshold = best_threshold(model.penalties(held.pairs), held.true)
        if threshold.accuracy > best.accuracy:
            best, kept = threshold, model.points.clone()
            kept_relation = None if model.relation is None else model.relation.clone()
        if report is not None:
            report(Progress(epoch, steps, steps, threshold))
    return ConceptEmbedding(config.comparison, kept, kept_relation), best


def inferred(edges: Edges) -> Edges:
    """Add to edges (n, 2) what follows from them by transitivity."""
    unknown = closure(np.unique(edges, axis=0))
    size = int(edges.max()) + 1
    return np.concatenate((edges, unknown[~PairSet(edges, size).holds(unknown)]))


def _step(
    model: ConceptEmbedding,
    true: np.ndarray,
    false: np.ndarray,
    config: HypernymTraining,
    optimizers: tuple[TableAdam, TableAdam | None],
    learning_rate: float,
) -> None:
    """Move the points of a batch, and the relation if there is one, against the loss."""
    pairs = torch.from_numpy(np.concatenate((true, false)))
    rows, which = torch.unique(pairs.T, return_inverse=True)  # which: (2, B)
    points = model.points.index_select(0, rows).requires_grad_()
    learned: list[Tensor] = [points]
    if model.relation is not None:
        learned.append(model.relation.requires_grad_())
    loss = _loss(
        model, points.index_select(0, which[0]), points.index_select(0, which[1]), len(true), config
    )
    gradients = torch.autograd.grad(loss, learned)
    optimizers[0].step(rows, gradients[0], learning_rate)
    if model.comparison == "order":
        model.points.index_copy_(0, rows, model.points.index_select(0, rows).clamp_(min=0))
    if model.relation is not None and optimizers[1] is not None:
        model.relation.requires_grad_(False)
        optimizers[1].step(torch.arange(len(model.relation)), gradients[1], learning_rate)


def _loss(
    model: ConceptEmbedding, below: Tensor, above: Tensor, true: int, config: HypernymTraining
) -> Tensor:
    """Sum the loss of a batch whose first pairs are true: (B, N), (B, N) -> ()."""
    pull = model.compare(below[:true], above[:true]).clamp(min=0).sum()
    if model.comparison == "order":
        reach = distance_to_order(below[true:], above[true:])
    else:
        reach = model.compare(below[true:], above[true:])
    push = (config.margin - reach).clamp(min=0).sum()
    return pull + push


def distance_to_order(below: Tensor, above: Tensor) -> Tensor:
    """Return how far pairs are from order, below 0 for those in it: (B, N), (B, N) -> (B,)."""
    gap = above - below
    widest = gap.amax(-1)
    outside = gap.clamp(min=0).square().sum(-1)
    # The root has no gradient at 0; `where` would multiply the infinite one by 0.
    return torch.where(widest > 0, outside.clamp(min=1e-12).sqrt(), widest)
