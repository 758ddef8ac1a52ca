"""Accuracy on withheld pairs, of a model and of transitivity alone."""

from __future__ import annotations

import numpy as np

from hasse.studies.hypernyms.embedding import ConceptEmbedding
from hasse.studies.hypernyms.task import PairSet, Task
from hasse.studies.hypernyms.taxonomy import closure
from hasse.studies.labelled_pairs import Accuracy


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
