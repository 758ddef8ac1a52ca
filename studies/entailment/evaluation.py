"""How many pairs of sentences are called right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.models.evaluation.bootstrap import interval
from hasse.models.evaluation.ranking import average_precisions
from hasse.studies.entailment.embedding import Penalties, SentenceEmbedding
from hasse.studies.entailment.pairs import SentencePair, labels
from hasse.studies.threshold import called_right


@dataclass(frozen=True, slots=True)
class EntailmentAccuracy:
    """Accuracy on labelled pairs, in percent.

    Attributes:
        accuracy: the share of pairs called right.
        low, high: its 95 % bootstrap interval.
        average_precision: of the entailed pairs, ranked by penalty; None without a ranking.
        pairs: how many.
        entailed: how many of them are.
    """

    accuracy: float
    low: float
    high: float
    average_precision: float | None
    pairs: int
    entailed: int

    @classmethod
    def of(
        cls, right: NDArray[np.bool_], true: NDArray[np.bool_], penalty: Penalties | None = None
    ) -> EntailmentAccuracy:
        """Summarise which pairs (n,) were called right, which are entailed, and the ranking."""
        low, high = interval(right)
        precision = None
        if penalty is not None and true.any():
            precision = 100 * float(average_precisions(penalty[None], true[None])[0])
        return cls(
            100 * float(right.mean()), 100 * low, 100 * high, precision, len(true), int(true.sum())
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything measured, as plain values."""
        return asdict(self)


def evaluate(
    model: SentenceEmbedding, threshold: float, pairs: Sequence[SentencePair]
) -> EntailmentAccuracy:
    """Measure a model on pairs, with a threshold chosen on others."""
    true, penalty = labels(pairs), model.penalties(pairs)
    return EntailmentAccuracy.of(called_right(penalty, true, threshold), true, penalty)


def evaluate_majority(
    train: Sequence[SentencePair], pairs: Sequence[SentencePair]
) -> EntailmentAccuracy:
    """Measure the baseline that always answers with the majority class of the training."""
    true = labels(pairs)
    answer = bool(labels(train).mean() > 0.5)
    return EntailmentAccuracy.of(true == answer, true)
