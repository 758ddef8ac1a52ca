"""Small corpora in the formats of SNLI and SICK."""

from __future__ import annotations

import json
from pathlib import Path

ANIMALS, PLACES = ("dog", "cat", "horse"), ("park", "garden", "street", "field")
SICK_HEADER = (
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\tentailment_AB\tentailment_BA\tSemEval_set"
)


def facts() -> list[tuple[str, str, str]]:
    """Return labelled pairs in which dropping a place follows and changing the animal does not."""
    found = []
    for animal in ANIMALS:
        for place in PLACES:
            told = f"A {animal} runs in the {place}."
            found.append((told, f"A {animal} runs.", "entailment"))
            found += [
                (told, f"A {other} runs.", "contradiction") for other in ANIMALS if other != animal
            ]
            found.append((f"A {animal} runs.", told, "neutral"))
    return found


def snli(folder: Path) -> Path:
    """Write the three files of SNLI, each with a pair that has no label, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"gold_label": label, "sentence1": premise, "sentence2": hypothesis, "pairID": "x"}
        for premise, hypothesis, label in facts()
    ]
    rows.append({"gold_label": "-", "sentence1": "One thing.", "sentence2": "Another."})
    for split in ("train", "dev", "test"):
        lines = "\n".join(json.dumps(row) for row in rows)
        (folder / f"snli_1.0_{split}.jsonl").write_text(lines + "\n", encoding="utf-8")
    return folder


def sick(path: Path, parts: tuple[str, ...] = ("TRAIN", "TRIAL")) -> Path:
    """Write a file of SICK's form, and return its path."""
    relation = {"entailment": "entails", "neutral": "neutral", "contradiction": "contradicts"}
    lines = [SICK_HEADER]
    for part in parts:
        for number, (a, b, label) in enumerate(facts()):
            forward, backward = f"A_{relation[label]}_B", "B_neutral_A"
            lines.append(f"{number}\t{a}\t{b}\t{label.upper()}\t{forward}\t{backward}\t{part}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
