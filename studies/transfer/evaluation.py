"""Measure sentence embeddings by a logistic regression on top of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.studies.bootstrap import interval
from hasse.studies.transfer.logistic import PENALTIES, Features, LogisticRegression
from hasse.studies.transfer.tasks import SCORES, WITHHELD, Examples, Metric, Task

Encode: TypeAlias = Callable[[Sequence[str]], Features]
FOLDS = 10
_NORMAL = 1.96  # of 95 %


@dataclass(frozen=True, slots=True)
class Result:
    """The score of a task, in percent.

    Attributes:
        low, high: a 95 % interval over the examples measured.
        f1: of the second class, for a task of two classes in pairs.
    """

    task: str
    metric: Metric
    value: float
    low: float
    high: float
    examples: int
    f1: float | None = None
    note: str = ""


def evaluate(task: Task, encode: Encode, *, most: int = 100_000, seed: int = 0) -> Result:
    """Measure embeddings on a task: its test part, or each of ten folds in its turn.

    The penalty is chosen on the validation part, or on a tenth of the training examples. Of more
    than `most` training examples so many are drawn.
    """
    draw = np.random.default_rng(seed)
    train = _first(task.train, draw, most)
    features = pair_features(train, encode)
    targets = train.targets
    note = task.note
    if len(train.first) < len(task.train.first):
        note = f"{most:,} of {len(task.train.first):,} training examples"
    if task.test is None:
        predicted = np.empty_like(targets)
        for fold in np.array_split(draw.permutation(len(targets)), FOLDS):
            rest = np.setdiff1d(np.arange(len(targets)), fold)
            model = _fitted(features[rest], targets[rest], None, draw)
            predicted[fold] = model.probabilities(features[fold])
        return _result(task, targets, predicted, note)
    validation = None
    if task.validation is not None:
        part = task.validation
        validation = pair_features(part, encode), part.targets
    model = _fitted(features, targets, validation, draw)
    tested = pair_features(task.test, encode)
    return _result(task, task.test.targets, model.probabilities(tested), note)


def pair_features(examples: Examples, encode: Encode) -> Features:
    """Return the features of sentences, or of pairs (u, v): u, v, u * v and |u - v|."""
    first = encode(examples.first)
    if not examples.second:
        return first
    second = encode(examples.second)
    return np.concatenate([first, second, first * second, np.abs(first - second)], axis=1)


def _fitted(
    features: Features,
    targets: Features,
    validation: tuple[Features, Features] | None,
    draw: np.random.Generator,
) -> LogisticRegression:
    """Fit a regression with the penalty that is best in validation."""
    learned = np.ones(len(features), bool)
    if validation is None:
        held = draw.permutation(len(features))[: max(1, int(WITHHELD * len(features)))]
        learned[held] = False
        validation = features[held], targets[held]
    seen, truth = validation
    fits = [
        LogisticRegression.fit(features[learned], targets[learned], penalty)
        for penalty in PENALTIES
    ]
    losses = [-(truth * np.log(fit.probabilities(seen) + 1e-9)).sum(1).mean() for fit in fits]
    best = int(np.argmin(losses))
    if learned.all():
        return fits[best]
    return LogisticRegression.fit(features, targets, PENALTIES[best])


def _result(task: Task, targets: Features, probabilities: Features, note: str) -> Result:
    if task.metric == "pearson":
        scores = np.arange(1, SCORES + 1)
        value, low, high = correlation(probabilities @ scores, targets @ scores)
        return Result(task.name, "pearson", value, low, high, len(targets), note=note)
    predicted, actual = probabilities.argmax(1), targets.argmax(1)
    right = (predicted == actual).astype(np.float64)
    low, high = interval(right)
    f1 = None
    if task.train.second and targets.shape[1] == 2:
        positive, true = predicted == 1, actual == 1
        f1 = 100 * 2 * float((positive & true).sum() / max(1, positive.sum() + true.sum()))
    shares = 100 * right.mean(), 100 * low, 100 * high
    return Result(task.name, "accuracy", *shares, len(right), f1, note)


def correlation(
    mine: NDArray[np.floating], theirs: NDArray[np.floating]
) -> tuple[float, float, float]:
    """Return Pearson's correlation of (n,) and (n,), and its 95 % interval by Fisher's z: x 100."""
    value = float(np.clip(np.corrcoef(mine, theirs)[0, 1], -0.999999, 0.999999))
    half = _NORMAL / np.sqrt(max(1, len(mine) - 3))
    middle = np.arctanh(value)
    return 100 * value, 100 * float(np.tanh(middle - half)), 100 * float(np.tanh(middle + half))


def _first(examples: Examples, draw: np.random.Generator, most: int) -> Examples:
    if len(examples.first) <= most:
        return examples
    rows = np.sort(draw.permutation(len(examples.first))[:most])
    second = tuple(examples.second[row] for row in rows) if examples.second else ()
    return Examples(tuple(examples.first[row] for row in rows), second, examples.targets[rows])
