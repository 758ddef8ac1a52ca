"""Pairs that are true or false: thresholds, their accuracy, and trainings measured by it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hasse.lab.evaluation.ranking import average_precisions
from hasse.lab.training.run import Batch, Progress, Run, Stop
from hasse.service.cli.terminal.table import print_table
from hasse.studies.bootstrap import interval

Penalties = NDArray[np.float32]
Labels = NDArray[np.bool_]
Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold, and its accuracy on the pairs that chose it.

    Attributes:
        value: pairs with a smaller penalty are called true.
        accuracy: share of those pairs that it classifies correctly, in [0, 1].
    """

    value: float
    accuracy: float

    @property
    def summary(self) -> str:
        """Text of the line of an epoch."""
        return f"{100 * self.accuracy:.2f} % right in validation"


def best_threshold(penalty: ArrayLike, true: ArrayLike) -> Threshold:
    """Return the threshold with the highest accuracy; the lowest of several.

    It lies halfway between two distinct penalties, below all or above all.

    Args:
        penalty: (n,), n at least 1, finite.
        true: (n,) of bool.
    """
    scores, labels = np.asarray(penalty, dtype=np.float64), np.asarray(true, dtype=np.bool_)
    distinct, which = np.unique(scores, return_inverse=True)
    gains = np.bincount(which, np.where(labels, 1, -1), minlength=len(distinct))
    # A threshold below all classifies the false pairs correctly. Each value that falls below it
    # adds its true pairs and takes its false ones.
    right = np.count_nonzero(~labels) + np.concatenate(([0], np.cumsum(gains)))
    best = int(right.argmax())
    edges = np.concatenate(([distinct[0] - 2], distinct, [distinct[-1] + 2]))
    value = (edges[best] + edges[best + 1]) / 2
    return Threshold(float(value), float(right[best] / len(scores)))


def called_right(penalty: ArrayLike, true: ArrayLike, threshold: float) -> Labels:
    """Return which pairs a threshold classifies correctly: (n,) -> (n,) of bool."""
    below = np.asarray(penalty, dtype=np.float64) < threshold
    return np.asarray(below == np.asarray(true, dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy on labelled pairs, in percent.

    Attributes:
        accuracy: share of the pairs that are classified correctly.
        low, high: its 95 % bootstrap interval.
        of_true, of_false: the same share of the true and of the false pairs; None without any.
        average_precision: of the true pairs, ranked by penalty; None without a ranking.
        pairs: number of pairs.
        true: number of true pairs.
    """

    accuracy: float
    low: float
    high: float
    of_true: float | None
    of_false: float | None
    average_precision: float | None
    pairs: int
    true: int

    @classmethod
    def of(cls, right: Labels, true: Labels, penalty: Penalties | None = None) -> Self:
        """Summarise the correctly classified and the true pairs, (n,), and their ranking."""
        low, high = interval(right)
        precision = None
        if penalty is not None and true.any():
            precision = 100 * float(average_precisions(penalty[None], true[None])[0])
        of_true, of_false = (
            100 * float(right[rows].mean()) if rows.any() else None for rows in (true, ~true)
        )
        share = 100 * float(right.mean())
        pairs = len(true), int(true.sum())
        return cls(share, 100 * low, 100 * high, of_true, of_false, precision, *pairs)

    @classmethod
    def at(cls, threshold: float, true: Labels, penalty: Penalties) -> Self:
        """Measure a threshold that other pairs have chosen."""
        return cls.of(called_right(penalty, true, threshold), true, penalty)

    def to_json(self) -> dict[str, Any]:
        """Return everything measured, as plain values."""
        return asdict(self)


def print_accuracies(rows: Mapping[str, Accuracy]) -> None:
    """Print a table of accuracies by name."""
    print_table(
        ("", "accuracy", "95 % interval", "of true", "of false", "average precision"),
        [
            (
                name,
                f"{one.accuracy:.2f}",
                f"{one.low:.2f} to {one.high:.2f}",
                *(
                    "" if value is None else f"{value:.2f}"
                    for value in (one.of_true, one.of_false, one.average_precision)
                ),
            )
            for name, one in rows.items()
        ],
    )


class PairRun(Run[Batch, Threshold], Generic[Batch, Model]):
    """A training whose epochs are compared by the best threshold on validation pairs.

    Attributes:
        model: what each step changes.
        best: the model and its threshold at the best epoch.
        save_best: called with both whenever there is a better one.
    """

    model: Model
    best: tuple[Model, Threshold]
    save_best: Callable[[Model, Threshold], object] = staticmethod(lambda model, threshold: None)

    @abstractmethod
    def validate(self) -> tuple[Penalties, Labels]:
        """Return the penalties and labels of the validation pairs, (n,) each."""

    def train(
        self,
        report: Callable[[Progress[Threshold]], None] | None = None,
        stop: Stop | None = None,
    ) -> tuple[Model, Threshold]:
        """Train to the end and return `best`; see `Run.run`."""
        self.run(report, stop)
        return self.best

    def measure(self, loss: float) -> Threshold:
        """Choose the threshold on the validation pairs."""
        return best_threshold(*self.validate())

    def quality(self, measurement: Threshold) -> float:
        """Compare epochs by accuracy."""
        return measurement.accuracy

    def save_model(self, measurement: Threshold) -> None:
        """Copy and save the model."""
        self.best = copy.deepcopy(self.model), measurement
        self.save_best(*self.best)
