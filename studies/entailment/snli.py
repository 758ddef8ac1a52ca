"""SNLI (Bowman et al., 2015) as it is distributed: one JSON object a line, one file a split."""

from __future__ import annotations

import json
from pathlib import Path

from hasse.studies.entailment.pairs import Corpus, EntailmentError, SentencePair, read_lines

SPLITS = ("train", "dev", "test")
LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"  # the annotators did not agree


def read(folder: Path) -> Corpus:
    """Read a folder of `*_train.jsonl`, `*_dev.jsonl` and `*_test.jsonl`.

    Neutral and contradicting pairs are alike: not entailed. Pairs without a gold label are
    dropped, as their authors ask.

    Raises:
        EntailmentError: a file is missing or a line is not of the format; it is named.
    """
    train, validation, test = (_pairs(_file(folder, split)) for split in SPLITS)
    dropped = train[1] + validation[1] + test[1]
    return Corpus(folder.resolve().name, train[0], validation[0], test[0], dropped)


def _file(folder: Path, split: str) -> Path:
    found = sorted(folder.glob(f"*_{split}.jsonl"))
    if len(found) != 1:
        how_many = "no file" if not found else f"{len(found)} files"
        raise EntailmentError(
            f"{folder} has {how_many} named *_{split}.jsonl: give the folder of SNLI's three "
            f"files, such as snli_1.0"
        )
    return found[0]


def _pairs(path: Path) -> tuple[tuple[SentencePair, ...], int]:
    """Return the pairs of a file that have a label, and how many have none."""
    pairs: list[SentencePair] = []
    dropped = 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            label, premise, hypothesis = row["gold_label"], row["sentence1"], row["sentence2"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise EntailmentError(
                f"{path}, line {number} is no JSON object with gold_label, sentence1 and "
                f"sentence2: the file is not SNLI's, or not whole"
            ) from None
        if label == NO_LABEL:
            dropped += 1
            continue
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise EntailmentError(
                f"{path}, line {number}: sentence1 and sentence2 are not both text: the file is "
                f"not SNLI's, or not whole"
            )
        if label not in LABELS:
            raise EntailmentError(
                f"{path}, line {number}: the label is {json.dumps(label)[:40]}; SNLI's are "
                f"entailment, neutral, contradiction and '{NO_LABEL}'"
            )
        pairs.append(SentencePair(premise, hypothesis, label == "entailment"))
    if not pairs:
        raise EntailmentError(f"{path} has no pair with a label")
    return tuple(pairs), dropped
