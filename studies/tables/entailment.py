"""Which sentence may be inferred from which: the paper's Table 3, and captions alone.

    python -m hasse.studies.tables.entailment SICK.txt --dimension 256 --start data/flickr8k-model
    python -m hasse.studies.tables.entailment snli_1.0

Trains the order and its symmetric control from scratch on a labelled corpus, and measures them
beside the majority class; every threshold is that of the validation part. With --start, a model
that learned from captions of pictures alone is measured too, once as it is (only its threshold
is learned) and once as a starting point. Intervals are 95 % bootstrap intervals over pairs.

    python -m hasse.studies.tables.entailment scenes data/scenes [--model MODEL]

measures entailment between captions of scenes, whose truth is known: average precision over
ordered pairs of captions of the test split, and the accuracy at the checkpoint's own threshold,
which was chosen on the validation split. Of all pairs about one in eighty is entailed; with as
many that are not (drawn at random) the figure is that of a balanced corpus.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.datasets import load as load_dataset
from hasse.models.encoders.text_encoder import CaptionPooling
from hasse.models.evaluation.ranking import average_precisions
from hasse.models.score import penalties_between
from hasse.models.training.run import Progress
from hasse.scenes import SceneTable, Statement
from hasse.studies import entailment
from hasse.studies.entailment.embedding import Penalties, SentenceConfig
from hasse.studies.entailment.evaluation import EntailmentAccuracy, evaluate, evaluate_majority
from hasse.studies.entailment.pairs import Corpus
from hasse.studies.entailment.training import (
    EntailmentRun,
    EntailmentTraining,
    initial,
    start_from,
)
from hasse.studies.threshold import Threshold


def main() -> None:
    """Print a table, of labelled pairs or of scenes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", help="SNLI's folder, SICK.txt, or the word scenes")
    parser.add_argument("dataset", type=Path, nargs="?", help="of scenes, for the word scenes")
    parser.add_argument("--model", type=Path, help="for scenes: the checkpoint, if not built-in")
    parser.add_argument("--captions", type=int, default=2000, help="for scenes: how many")
    parser.add_argument("--start", type=Path, help="a checkpoint that learned from captions")
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--word-range", type=float, default=1.0)
    parser.add_argument("--pooling", choices=get_args(CaptionPooling), default="last")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args()
    if options.corpus == "scenes":
        if options.dataset is None:
            parser.error("scenes: name the folder that 'hasse lab data import scenes' wrote")
        found = scenes(options.dataset, options.model, options.captions)
        print(json.dumps(found, indent=2) if options.json else _scenes_text(found))
        return
    corpus = entailment.read(Path(options.corpus))
    rows = labelled(
        corpus,
        EntailmentTraining(
            SentenceConfig(
                dimension=options.dimension,
                word_range=options.word_range,
                pooling=options.pooling,
            ),
            epochs=options.epochs,
            seed=options.seed,
        ),
        options.start,
    )
    if options.json:
        json.dump({name: row.to_json() for name, row in rows.items()}, sys.stdout, indent=2)
        return
    print(f"{'':<34}{'accuracy':>10}{'95 % interval':>18}{'average precision':>20}")
    for name, row in rows.items():
        precision = "" if row.average_precision is None else f"{row.average_precision:.1f}"
        span = f"{row.low:.1f} to {row.high:.1f}"
        print(f"{name:<34}{row.accuracy:>10.1f}{span:>18}{precision:>20}")
    print(
        f"\n{corpus.name}: {len(corpus.train):,} pairs to learn from, {len(corpus.test):,} to be "
        f"measured on{'; ' + corpus.note if corpus.note else ''}; dimension {options.dimension}, "
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}"
    )


def labelled(
    corpus: Corpus, config: EntailmentTraining, start: Path | None
) -> dict[str, EntailmentAccuracy]:
    """Return the rows of the table."""
    rows = {"majority class": evaluate_majority(corpus.train, corpus.test)}

    def row(name: str, config: EntailmentTraining, begun: checkpoint.Checkpoint | None) -> None:
        def tell(now: Progress[Threshold]) -> None:
            if now.measured is not None:
                print(
                    f"{name}: epoch {now.epoch + 1}, {100 * now.measured.accuracy:.1f} % right in "
                    f"validation",
                    file=sys.stderr,
                    flush=True,
                )

        run = EntailmentRun(config, initial(config, corpus, begun), corpus)
        model, threshold = run.train(tell)
        rows[name] = evaluate(model, threshold.value, corpus.test)

    row("symmetric", replace(config, model=replace(config.model, comparison="symmetric")), None)
    row("order, unit length", replace(config, model=replace(config.model, length="unit")), None)
    row("order", config, None)
    if start is not None:
        begun = checkpoint.load(start)
        shaped = start_from(begun, config)
        own = replace(shaped.model, length=begun.trained.config.length)
        as_it_is = replace(shaped, epochs=0, model=own)
        row(f"order, {begun.name} as it is", as_it_is, begun)
        row(f"order, started from {begun.name}", shaped, begun)
    return rows


def scenes(dataset: Path, folder: Path | None, captions: int) -> dict[str, Any]:
    """Measure entailment between captions of the test split, all ordered pairs of distinct ones."""
    started = time.monotonic()
    loaded = checkpoint.load(folder or named_models.pretrained())
    own = {
        caption.text: Statement.from_json(caption.meaning or {})
        for caption in load_dataset(dataset).split("test").captions
    }
    every = list(own)
    kept = np.unique(np.linspace(0, len(every) - 1, captions).astype(np.int64))
    texts = [every[row] for row in kept]
    said = [own[text] for text in texts]
    points = loaded.model.encode_captions(texts)
    penalty = penalties_between(loaded.model.config.score, points, points)
    premises = SceneTable(said)
    true = np.stack([premises.holds(hypothesis) for hypothesis in said], axis=1)
    others = ~np.eye(len(said), dtype=np.bool_)
    scores, labels = penalty[others], true[others]
    calibration = loaded.calibration.caption
    called = None if calibration is None else scores < calibration.threshold
    return {
        "model": loaded.name,
        "captions": len(texts),
        "pairs": len(labels),
        "entailed": int(labels.sum()),
        "average_precision": float(average_precisions(scores[None], labels[None])[0]),
        "balanced": _balanced(scores, labels),
        "by_hypothesis": _by_hypothesis(penalty, true),
        "threshold": None if calibration is None else calibration.threshold,
        "accuracy": None if called is None else 100 * float((called == labels).mean()),
        "precision": None if called is None else _share(labels, called),
        "recall": None if called is None else _share(called, labels),
        "majority": 100 * float(max(labels.mean(), 1 - labels.mean())),
        "seconds": round(time.monotonic() - started, 1),
    }


def _balanced(scores: Penalties, labels: np.ndarray) -> float:
    """Return the average precision with as many pairs that are not entailed, drawn at random."""
    entailed, rest = np.flatnonzero(labels), np.flatnonzero(~labels)
    rest = np.random.default_rng(0).choice(rest, min(len(entailed), len(rest)), replace=False)
    rows = np.concatenate((entailed, rest))
    return float(average_precisions(scores[None, rows], labels[None, rows])[0])


def _by_hypothesis(penalty: Penalties, true: np.ndarray) -> float:
    """Rank the premises of each hypothesis; return the mean of their average precisions."""
    found = []
    for at in range(len(true)):
        others = np.arange(len(true)) != at
        column, good = penalty[others, at], true[others, at]
        if good.any():
            found.append(average_precisions(column[None], good[None])[0])
    return float(np.mean(found))


def _share(of: np.ndarray, among: np.ndarray) -> float:
    """Return how many of some pairs are others too, in percent."""
    return 100 * float(of[among].mean()) if among.any() else 0.0


def _scenes_text(found: dict[str, Any]) -> str:
    lines = [
        f"model {found['model']}: {found['captions']:,} captions, {found['pairs']:,} ordered "
        f"pairs, of which {found['entailed']:,} are entailed",
        f"average precision {found['average_precision']:.3f} over all pairs, "
        f"{found['balanced']:.3f} with as many pairs that are not entailed, "
        f"{found['by_hypothesis']:.3f} for the premises of one hypothesis (mean)",
    ]
    if found["threshold"] is None:
        lines.append("the checkpoint has no threshold for captions: train it again to get one")
    else:
        lines.append(
            f"at the stored threshold {found['threshold']:.4f}: accuracy {found['accuracy']:.2f} % "
            f"(always no: {found['majority']:.2f}), precision {found['precision']:.1f} %, "
            f"recall {found['recall']:.1f} %"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
