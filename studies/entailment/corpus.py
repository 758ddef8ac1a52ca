"""Labelled pairs of sentences: may the second be inferred from the first?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.studies.sentence_pairs import NO_LABEL, Columns, SentencePairsError, read_sick, read_snli

FORWARD = {"A_entails_B": True, "A_neutral_B": False, "A_contradicts_B": False}
BACKWARD = {"B_entails_A": True, "B_neutral_A": False, "B_contradicts_A": False}
WITHHELD = 0.1  # of the training lines, for validation, where there is no test part


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A premise, a hypothesis, and whether the premise entails it."""

    premise: str
    hypothesis: str
    entailed: bool


@dataclass(frozen=True, slots=True)
class Corpus:
    """Labelled pairs, split.

    Attributes:
        name: of the corpus in tables.
        dropped: number of pairs without a label, on which annotators did not agree.
        note: how the split was made, if not by the corpus itself.
    """

    name: str
    train: tuple[SentencePair, ...]
    validation: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    dropped: int = 0
    note: str = ""


def labels(pairs: Sequence[SentencePair]) -> NDArray[np.bool_]:
    """Return which pairs are entailed: (n,)."""
    return np.array([pair.entailed for pair in pairs], dtype=np.bool_)


def read(path: Path) -> Corpus:
    """Read SNLI, when given its folder, or SICK, when given its file.

    Raises:
        SentencePairsError: it is neither, or damaged; the place is named.
    """
    if not path.exists():
        raise SentencePairsError(f"there is no {path}: give SNLI's folder or the file SICK.txt")
    return _snli(path) if path.is_dir() else _sick(path)


def _snli(folder: Path) -> Corpus:
    """Read SNLI. Neutral and contradicting pairs are alike: not entailed.

    Pairs without a gold label are dropped, as the authors of SNLI ask.
    """
    parts: list[tuple[SentencePair, ...]] = []
    dropped = 0
    for split in ("train", "dev", "test"):
        files = sorted(folder.glob(f"*_{split}.jsonl"))
        if len(files) != 1:
            how_many = "no file" if not files else f"{len(files)} files"
            raise SentencePairsError(
                f"{folder} has {how_many} named *_{split}.jsonl: give the folder of SNLI's three "
                f"files, such as snli_1.0"
            )
        rows = read_snli(files[0])
        labelled = [row for row in rows if row[2] != NO_LABEL]
        dropped += len(rows) - len(labelled)
        parts.append(tuple(SentencePair(a, b, label == "entailment") for a, b, label in labelled))
    train, validation, test = parts
    return Corpus(folder.resolve().name, train, validation, test, dropped)


def _sick(path: Path) -> Corpus:
    """Read SICK: TRAIN to learn from, TRIAL for validation, TEST to be measured on.

    A line has a label for each of its two directions, so it gives two pairs. A file without a TEST
    part is measured on TRIAL, and every tenth line of TRAIN, drawn at random but always the same,
    validates instead.
    """
    columns: Columns = {
        "sentence_A": None,
        "sentence_B": None,
        "entailment_AB": FORWARD,
        "entailment_BA": BACKWARD,
    }
    train, validation, test = read_sick(path, columns).values()
    note = ""
    if not test:
        chosen = np.random.default_rng(0).random(len(train)) < WITHHELD
        test = validation
        validation = [line for line, held in zip(train, chosen, strict=True) if held]
        train = [line for line, held in zip(train, chosen, strict=True) if not held]
        note = "no TEST part: measured on TRIAL, validated on a tenth of TRAIN"
    for name, lines in (("TRAIN", train), ("TRIAL", validation), ("TRIAL or TEST", test)):
        if not lines:
            raise SentencePairsError(f"{path} has too few lines of {name}: fetch the whole file")
    learned, held, measured = (_both_ways(lines) for lines in (train, validation, test))
    return Corpus("SICK", learned, held, measured, note=note)


def _both_ways(lines: Sequence[tuple[str, ...]]) -> tuple[SentencePair, ...]:
    pairs: list[SentencePair] = []
    for a, b, forward, backward in lines:
        pairs.append(SentencePair(a, b, FORWARD[forward]))
        pairs.append(SentencePair(b, a, BACKWARD[backward]))
    return tuple(pairs)
