"""SICK (Marelli et al., 2014) as it is distributed: one table with a line for each pair.

A line says what holds in each of its two directions, so it gives two pairs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hasse.studies.entailment.pairs import Corpus, EntailmentError, SentencePair, read_lines

COLUMNS = ("sentence_A", "sentence_B", "entailment_AB", "entailment_BA", "SemEval_set")
FORWARD = {"A_entails_B": True, "A_neutral_B": False, "A_contradicts_B": False}
BACKWARD = {"B_entails_A": True, "B_neutral_A": False, "B_contradicts_A": False}
SETS = ("TRAIN", "TRIAL", "TEST")
WITHHELD = 0.1  # of the training lines, for validation, where there is no test part


def read(path: Path) -> Corpus:
    """Read `SICK.txt`: TRAIN to learn from, TRIAL for validation, TEST to be measured on.

    A file without a TEST part is measured on TRIAL, and every tenth line of TRAIN, drawn at
    random but always the same, validates instead.

    Raises:
        EntailmentError: the file is missing, has not the columns, or a line is not of the format.
    """
    lines = read_lines(path)
    header = lines[0].split("\t")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise EntailmentError(
            f"{path} has no column {', '.join(missing)}: give SICK.txt, whose first line names "
            f"its columns, separated by tabs"
        )
    places = [header.index(name) for name in COLUMNS]
    parts: dict[str, list[tuple[SentencePair, SentencePair]]] = {name: [] for name in SETS}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != len(header):
            raise EntailmentError(
                f"{path}, line {number} has {len(fields)} fields instead of {len(header)}: the "
                f"file is not whole"
            )
        a, b, forward, backward, part = (fields[place].strip() for place in places)
        if forward not in FORWARD or backward not in BACKWARD or part not in parts:
            raise EntailmentError(
                f"{path}, line {number}: '{forward}', '{backward}', '{part}' are not SICK's "
                f"labels, such as A_entails_B, B_neutral_A, TRAIN"
            )
        parts[part].append(
            (SentencePair(a, b, FORWARD[forward]), SentencePair(b, a, BACKWARD[backward]))
        )
    train, validation, test = parts.values()
    note = ""
    if not test:
        chosen = np.random.default_rng(0).random(len(train)) < WITHHELD
        test = validation
        validation = [lines for lines, held in zip(train, chosen, strict=True) if held]
        train = [lines for lines, held in zip(train, chosen, strict=True) if not held]
        note = "no TEST part: measured on TRIAL, validated on a tenth of TRAIN"
    for name, part_lines in (("TRAIN", train), ("TRIAL", validation), ("TRIAL or TEST", test)):
        if not part_lines:
            raise EntailmentError(f"{path} has too few lines of {name}: fetch the whole file")
    return Corpus("SICK", _flat(train), _flat(validation), _flat(test), note=note)


def _flat(lines: list[tuple[SentencePair, SentencePair]]) -> tuple[SentencePair, ...]:
    return tuple(pair for line in lines for pair in line)
