"""The tasks of SentEval (Conneau and Kiela, 2018), read from the files they come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hasse.models.errors import HasseError
from hasse.studies.sentence_pairs import NO_LABEL, SNLI_LABELS, read_sick, read_snli

Metric = Literal["accuracy", "pearson"]
Targets = NDArray[np.float32]  # (n, classes), the share of each class
SCORES = 5  # SICK's relatedness is from 1 to 5
WITHHELD = 0.1  # of the training examples, to choose the penalty by, where no part is for that


class TransferError(HasseError):
    """Tasks or models that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Sentences, or pairs of them, with their labels.

    Attributes:
        first: a sentence of each example.
        second: the other sentence of each pair; empty where there are no pairs.
        targets: (n, classes).
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    targets: Targets


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its parts.

    Attributes:
        name: what tables call it.
        train: all examples, where there is no test part and ten folds take turns.
        note: what differs from the task as its authors measure it.
    """

    name: str
    train: Examples
    validation: Examples | None = None
    test: Examples | None = None
    metric: Metric = "accuracy"
    note: str = ""


def read_tasks(folder: Path) -> list[Task]:
    """Read every task of which there are files in a folder or below it.

    Raises:
        TransferError: there is none, or a file is not of its format; it is named.
    """
    paths: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        paths.setdefault(path.name, path)
    tasks = []
    for name, (files, read) in _READERS.items():
        there = [paths[file] for file in files if file in paths]
        if len(there) == len(files):
            tasks.append(read(name, there))
        elif there:
            missing = next(file for file in files if file not in paths)
            raise TransferError(f"{there[0]} is there and {missing} is not: add it for {name}")
    if "SICK.txt" in paths:
        tasks += _sick(paths["SICK.txt"])
    return tasks


def _two_files(name: str, paths: Sequence[Path]) -> Task:
    texts = [_lines(path) for path in paths]
    classes = [at for at, lines in enumerate(texts) for _ in lines]
    return Task(name, _classified([line for lines in texts for line in lines], (), classes, 2))


def _sst(name: str, paths: Sequence[Path]) -> Task:
    parts = []
    for path in paths:
        rows = [line.rsplit("\t", 1) for line in _lines(path)]
        if any(len(row) != 2 or row[1] not in ("0", "1") for row in rows):
            raise TransferError(f"{path} has a line without a tab and a 0 or 1 at its end")
        parts.append(_classified([row[0] for row in rows], (), [int(row[1]) for row in rows], 2))
    return Task(name, parts[0], parts[1], parts[2])


def _mrpc(name: str, paths: Sequence[Path]) -> Task:
    parts = []
    for path in paths:
        rows = [line.split("\t") for line in _lines(path)[1:]]
        if any(len(row) != 5 or row[0] not in ("0", "1") for row in rows):
            raise TransferError(f"{path} has a line that is not a 0 or 1, two ids and two texts")
        parts.append(
            _classified(
                [row[3] for row in rows],
                [row[4] for row in rows],
                [int(row[0]) for row in rows],
                2,
            )
        )
    return Task(name, parts[0], test=parts[1])


def _snli(name: str, paths: Sequence[Path]) -> Task:
    parts = []
    for path in paths:
        rows = [row for row in read_snli(path) if row[2] != NO_LABEL]
        classes = [SNLI_LABELS.index(row[2]) for row in rows]
        first, second = [row[0] for row in rows], [row[1] for row in rows]
        parts.append(_classified(first, second, classes, len(SNLI_LABELS)))
    return Task(name, parts[0], parts[1], parts[2])


_Reader = Callable[[str, Sequence[Path]], Task]
_READERS: Mapping[str, tuple[tuple[str, ...], _Reader]] = {
    "MR": (("rt-polarity.neg", "rt-polarity.pos"), _two_files),
    "CR": (("custrev.neg", "custrev.pos"), _two_files),
    "SUBJ": (("subj.objective", "subj.subjective"), _two_files),
    "MPQA": (("mpqa.neg", "mpqa.pos"), _two_files),
    "SST": (("sentiment-train", "sentiment-dev", "sentiment-test"), _sst),
    "MRPC": (("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"), _mrpc),
    "SNLI": (("snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"), _snli),
}


def _sick(path: Path) -> list[Task]:
    columns = ("sentence_A", "sentence_B", "entailment_label", "relatedness_score")
    parts = read_sick(path, dict.fromkeys(columns))
    labels = sorted({row[2] for rows in parts.values() for row in rows})
    note = ""
    if not parts["TEST"]:
        parts["TEST"], parts["TRIAL"] = parts["TRIAL"], []
        note = "no TEST part: measured on TRIAL"

    def examples(part: str, *, relatedness: bool) -> Examples | None:
        chosen = parts[part]
        if not chosen:
            return None
        first, second = [row[0] for row in chosen], [row[1] for row in chosen]
        if relatedness:
            return Examples(tuple(first), tuple(second), _spread([float(row[3]) for row in chosen]))
        return _classified(first, second, [labels.index(row[2]) for row in chosen], len(labels))

    tasks = []
    for name, relatedness in (("SICK-E", False), ("SICK-R", True)):
        train, validation, test = (
            examples(part, relatedness=relatedness) for part in ("TRAIN", "TRIAL", "TEST")
        )
        if train is None or test is None:
            raise TransferError(f"{path} has no lines of TRAIN, or none to measure on")
        metric: Metric = "pearson" if relatedness else "accuracy"
        tasks.append(Task(name, train, validation, test, metric, note))
    return tasks


def _spread(scores: Iterable[float]) -> Targets:
    """Return scores as shares of the two whole scores beside each (Tai et al., 2015): (n, 5)."""
    given = np.array(list(scores))
    whole = np.clip(np.floor(given).astype(int), 1, SCORES - 1)
    targets = np.zeros((len(given), SCORES), np.float32)
    rows = np.arange(len(given))
    targets[rows, whole] = given - whole
    targets[rows, whole - 1] = 1 - (given - whole)
    return targets


def _classified(
    first: Sequence[str], second: Sequence[str], classes: Sequence[int], count: int
) -> Examples:
    targets = np.eye(count, dtype=np.float32)[np.array(classes, int)]
    return Examples(tuple(first), tuple(second), targets)


def _lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # as the movie reviews are distributed
    return [line.strip() for line in text.split("\n") if line.strip()]
