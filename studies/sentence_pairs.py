"""SNLI (Bowman et al., 2015) and SICK (Marelli et al., 2014), as they are distributed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from hasse.models.datasets.source import read_text
from hasse.models.errors import HasseError

SNLI_LABELS = ("contradiction", "entailment", "neutral")
NO_LABEL = "-"  # the annotators did not agree
SICK_PARTS = ("TRAIN", "TRIAL", "TEST")
Columns = Mapping[str, Collection[str] | None]


class SentencePairsError(HasseError):
    """Pairs of sentences that cannot be read; the message has the reason and the remedy."""


def read_snli(path: Path) -> list[tuple[str, str, str]]:
    """Read one split of SNLI, a JSON object a line: premise, hypothesis and label of each pair.

    The label is one of `SNLI_LABELS`, or `NO_LABEL`.

    Raises:
        SentencePairsError: a line is not of the format; it is named.
    """
    pairs = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            label, premise, hypothesis = row["gold_label"], row["sentence1"], row["sentence2"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SentencePairsError(
                f"{path}, line {number} is no JSON object with gold_label, sentence1 and "
                f"sentence2: the file is not SNLI's, or not whole"
            ) from None
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise SentencePairsError(
                f"{path}, line {number}: sentence1 and sentence2 are not both text: the file is "
                f"not SNLI's, or not whole"
            )
        if label not in (*SNLI_LABELS, NO_LABEL):
            raise SentencePairsError(
                f"{path}, line {number}: the label is {json.dumps(label)[:40]}; SNLI's are "
                f"entailment, neutral, contradiction and '{NO_LABEL}'"
            )
        pairs.append((premise, hypothesis, label))
    if all(label == NO_LABEL for *_, label in pairs):
        raise SentencePairsError(f"{path} has no pair with a label")
    return pairs


def read_sick(path: Path, columns: Columns) -> dict[str, list[tuple[str, ...]]]:
    """Read some columns of `SICK.txt`: the values of each line, by the part that it is of.

    Args:
        columns: the values that each of them may have; None for any.

    Raises:
        SentencePairsError: the file is missing, has not the columns, or a line is not of the
            format.
    """
    first, *lines = _lines(path)
    header = first.split("\t")
    asked = {**columns, "SemEval_set": SICK_PARTS}
    if missing := [name for name in asked if name not in header]:
        raise SentencePairsError(
            f"{path} has no column {', '.join(missing)}: give SICK.txt, whose first line names "
            f"its columns, separated by tabs"
        )
    places = [header.index(name) for name in asked]
    parts: dict[str, list[tuple[str, ...]]] = {name: [] for name in SICK_PARTS}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != len(header):
            raise SentencePairsError(
                f"{path}, line {number} has {len(fields)} fields instead of {len(header)}: the "
                f"file is not whole"
            )
        *values, part = (fields[place].strip() for place in places)
        for value, (name, allowed) in zip((*values, part), asked.items(), strict=True):
            if allowed is not None and value not in allowed:
                raise SentencePairsError(
                    f"{path}, line {number}: {name} is '{value}', not one of {', '.join(allowed)}"
                )
        parts[part].append(tuple(values))
    return parts


def _lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; sentences may hold what Unicode calls a line's end."""
    return read_text(path, SentencePairsError).split("\n")
