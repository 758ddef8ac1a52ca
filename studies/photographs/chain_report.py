"""Truth of a model on chains: measured on encoded images, and printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import typer

from hasse.lab.pipelines.dataset_encoding import EncodedDataset
from hasse.models.calibration import further_words
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.score import penalties_between
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count
from hasse.studies.photographs.chain_evaluation import (
    Floats,
    coherence,
    hierarchy,
    measure,
    pair,
    reliability,
)
from hasse.studies.photographs.chains import Chain

_LABELS = {"all": "all levels", "specific_true_general_false": "specific true, general false"}
_BAR = 20  # characters
# A coordinate of depth that texts get and no picture has: what a text of one word violates more by
# than one of `DEEPEST` further words. Chosen on the chains that calibrated the built-in model.
DEPTH, DEEPEST = 0.1, 8
_PRECISION = "average_precision"


def measure_chains(
    model: Checkpoint, encoded: EncodedDataset, chains: Sequence[Chain]
) -> dict[str, Any]:
    """Measure truth on the chains of encoded images; see `chain_evaluation`."""
    pairs, used = pair(encoded.dataset, chains)
    texts = model.model.encode_captions(pairs.texts)
    images, rows = np.unique(pairs.images, return_inverse=True)
    every = penalties_between(model.model.config.score, encoded.images[images], texts)
    violations = every[rows, pairs.text_rows].astype(np.float64)
    found: dict[str, Any] = {"chains": len(used), "violation": measure(pairs, -violations)}
    if (judge := model.judge("image")) is not None:
        asked = [pairs.texts[row] for row in pairs.text_rows]
        probability = judge.probabilities(asked, encoded.images[pairs.images], violations)
        found["probability"] = measure(pairs, probability)
        found["reliability"] = reliability(pairs, probability)
        found["coherence"] = coherence(pairs, probability)
    root = model.model.encode_captions([""])
    distances = np.linalg.norm(texts - root, axis=1).astype(np.float64)
    by_image = every.astype(np.float64)
    deeper = depths(pairs.texts)
    return found | {
        "hierarchy": hierarchy(pairs, used, by_image, distances, images),
        "hierarchy_by_depth": hierarchy(
            pairs, used, by_image + DEPTH * (1 - deeper), deeper, images
        ),
    }


def depths(texts: Sequence[str]) -> Floats:
    """Return how much each text says, by its words: (T,), between 0 and 1."""
    further = [further_words(text) for text in texts]
    return np.minimum(np.array(further, np.float64), DEEPEST) / DEEPEST


def show_chains(found: Mapping[str, Any]) -> None:
    """Print the result of `measure_chains`, of the probability where there is one."""
    kind = "probability" if "probability" in found else "violation"
    measured = found[kind]
    rows = [
        (_LABELS.get(key, f"level {key}"), _ranged(value["auc"]), _ranged(value[_PRECISION]))
        for key, value in measured.items()
        if key not in {"tau", "in_order"}
    ]
    print_table((f"{kind} on chains", "AUC", "average precision"), rows)
    typer.echo(
        f"tau of generality and {kind}: {_ranged(measured['tau'])}; chains in perfect order: "
        f"{_ranged(measured['in_order'])}; {count(found['chains'], 'chain')}"
    )
    if "coherence" in found:
        agreeing, likely = (_ranged(found["coherence"][key]) for key in ("agreeing", "likely"))
        typer.echo(
            f"coherence: the general of two texts is not less probable: {agreeing}; "
            f"likely, where the specific one is: {likely}"
        )
    for key, how in (("hierarchy", "from the empty text"), ("hierarchy_by_depth", "by words")):
        tree = ", ".join(
            f"{name.replace('_', ' ')} {_ranged(value)}" for name, value in found[key].items()
        )
        typer.echo(f"as HierarCaps measures, {how}: {tree}")
    for kind, table in found.get("reliability", {}).items():
        bars = [
            (f"{row['from']:.1f}", f"{row['pairs']:,}", f"{row['probability']:.3f}", _bar(row))
            for row in table["rows"]
        ]
        typer.echo()
        print_table((f"{kind} texts: from", "pairs", "probability", "true"), bars)
        typer.echo(
            f"{kind} texts: expected calibration error {_ranged(table['error'])}, in equal masses "
            f"{_ranged(table['error_of_equal_masses'])}; Brier score {_ranged(table['brier'])}, "
            f"log loss {_ranged(table['log_loss'])}"
        )


def _bar(row: Mapping[str, float]) -> str:
    """Draw the share of true pairs, with a mark at the predicted probability."""
    predicted, true = (round(_BAR * row[key]) for key in ("probability", "true"))
    bar = ["█" if at < true else "·" for at in range(_BAR)]
    bar[min(predicted, _BAR - 1)] = "|"
    return f"{row['true']:.3f} {''.join(bar)}"


def _ranged(value: Mapping[str, float]) -> str:
    return f"{value['value']:.3f} ({value['low']:.3f}…{value['high']:.3f})"
