"""How many withheld pairs are called right, by a model and by transitivity alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.models.evaluation.bootstrap import interval
from hasse.studies.hypernyms.embedding import ConceptEmbedding
from hasse.studies.hypernyms.task import PairSet, Task
from hasse.studies.hypernyms.taxonomy import closure
from hasse.studies.threshold import called_right


@dataclass(frozen=True, slots=True)
class HypernymAccuracy:
    """The share of test pairs called right, in percent.

    Attributes:
        low, high: the 95 % bootstrap interval of `accuracy`.
        of_true, of_false: the share of the true pairs, and of the false ones.
    """

    accuracy: float
    low: float
    high: float
    of_true: float
    of_false: float
    pairs: int

    @classmethod
    def of(cls, right: NDArray[np.bool_], true: NDArray[np.bool_]) -> HypernymAccuracy:
        """Summarise which pairs (n,) were called right, and which are true."""
        low, high = interval(right)
        return cls(
            100 * float(right.mean()),
            100 * low,
            100 * high,
            100 * float(right[true].mean()),
            100 * float(right[~true].mean()),
            len(right),
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything measured, as plain values."""
        return asdict(self)


def evaluate(model: ConceptEmbedding, threshold: float, task: Task) -> HypernymAccuracy:
    """Measure a model on the test pairs, with a threshold chosen on others."""
    penalty = model.penalties(task.test.pairs)
    return HypernymAccuracy.of(called_right(penalty, task.test.true, threshold), task.test.true)


def evaluate_closure(task: Task) -> HypernymAccuracy:
    """Measure the baseline that learns nothing: a pair is true if it follows by transitivity.

    As in the paper, from the true pairs of training and validation together.
    """
    known = np.concatenate((task.train, task.validation.pairs[task.validation.true]))
    called = PairSet(closure(np.unique(known, axis=0)), task.concepts).holds(task.test.pairs)
    return HypernymAccuracy.of(called == task.test.true, task.test.true)
