"""How well does a model find *every* scene that a caption is true of?

    python -m hasse.studies.tables.scenes data/scenes MODEL [MODEL ...]

Scenes know their meaning, so the truth of any caption for any picture is known, and a general
caption can be held to its promise: all the pictures that it is true of, before all others. The
table gives, over the test split,

    1 concept, 2 concepts   mean average precision of set retrieval for captions of one concept
                            ("an animal") and two ("a red kite"), sampled from the language of
                            captions and not from the split
    full R@10               captions that say all there is: a true picture among the first ten
    any caption             mean average precision over the split's own captions, of all levels
    caption R@1             pictures asking for captions: is the first one true?

each with the half-width of a 95 % bootstrap interval over queries, and, for every model after
the first, the difference to the first with its interval, the same queries drawn for both.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.models.checkpoints.checkpoint import Checkpoint, load
from hasse.models.datasets import Dataset
from hasse.models.datasets import load as load_dataset
from hasse.models.evaluation.bootstrap import half_width
from hasse.models.evaluation.ranking import average_precisions, best_ranks
from hasse.models.images.decoding import open_picture
from hasse.models.score import penalties_between
from hasse.scenes import Scene, SceneTable, Statement, sample_statements

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Questions:
    """Captions and, for each, the test images it is true of: (Q, I)."""

    texts: list[str]
    true: NDArray[np.bool_]


def questions(statements: list[Statement], table: SceneTable) -> Questions:
    """Keep the captions that are true of some images and false of others."""
    true = np.stack([table.holds(statement) for statement in statements])
    kept = np.flatnonzero(true.any(1) & ~true.all(1))
    return Questions([statements[row].text for row in kept], true[kept])


def measure(
    checkpoint: Checkpoint, dataset: Dataset, asked: dict[str, Questions]
) -> dict[str, Values]:
    """Return, for each column of the table, one value in [0, 1] per query."""
    model, score = checkpoint.model, checkpoint.model.config.score
    pictures = [open_picture(image.path) for image in dataset.images]
    images = model.encode_images(pictures)  # (I, N)

    def ask(kind: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        captions = model.encode_captions(asked[kind].texts)  # (Q, N)
        return penalties_between(score, images, captions).T, asked[kind].true

    every, true = ask("any caption")
    values = {kind: average_precisions(*ask(kind)) for kind in ("1 concept", "2 concepts")}
    values["full R@10"] = (best_ranks(*ask("full R@10"))[0] <= 10).astype(float)
    values["any caption"] = average_precisions(every, true)
    values["caption R@1"] = (best_ranks(every.T, true.T)[0] <= 1).astype(float)
    return values


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import scenes'")
    parser.add_argument("models", type=Path, nargs="+", help="checkpoint folders")
    parser.add_argument("--queries", type=int, default=1000, help="sampled, of two concepts")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args()

    dataset = load_dataset(options.dataset).split("test")
    table = SceneTable([Scene.from_json(image.meaning or {}) for image in dataset.images])
    own = [Statement.from_json(caption.meaning or {}) for caption in dataset.captions]
    draw = random.Random(0)
    asked = {
        "1 concept": questions(sample_statements(draw, options.queries, concepts=1), table),
        "2 concepts": questions(sample_statements(draw, options.queries, concepts=2), table),
        "full R@10": questions([statement for statement in own if statement.full], table),
        "any caption": questions(own, table),
    }
    results: dict[str, dict[str, Values]] = {}
    started = time.monotonic()
    for folder in options.models:
        checkpoint = load(folder)
        score = checkpoint.model.config.score
        results[f"{checkpoint.name} ({score})"] = measure(checkpoint, dataset, asked)
    seconds = time.monotonic() - started
    if options.json:
        report = {
            name: {
                column: {
                    "value": 100 * float(values.mean()),
                    "half_width": 100 * half_width(values),
                    "queries": len(values),
                }
                for column, values in columns.items()
            }
            for name, columns in results.items()
        }
        json.dump(report, sys.stdout, indent=2)
        return
    print_table(results)
    print(
        f"\n{len(dataset)} images of the test split; percent; 95 % bootstrap intervals; "
        f"{seconds:.0f} s, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{platform.machine()}"
    )


def print_table(results: dict[str, dict[str, Values]]) -> None:
    """Print one row a model, and one for each difference to the first."""
    first_name, first = next(iter(results.items()))
    heads = [f"{column} ({len(values)})" for column, values in first.items()]
    width = max(len(name) for name in results) + 12
    print(" " * width + "".join(f"{head:>20}" for head in heads))
    for name, columns in results.items():
        cells = [f"{100 * v.mean():.1f} ± {100 * half_width(v):.1f}" for v in columns.values()]
        print(f"{name:<{width}}" + "".join(f"{cell:>20}" for cell in cells))
        if name != first_name:
            gaps = [columns[column] - first[column] for column in columns]
            cells = [f"{100 * v.mean():+.1f} ± {100 * half_width(v):.1f}" for v in gaps]
            print(f"{'  less ' + first_name:<{width}}" + "".join(f"{c:>20}" for c in cells))


if __name__ == "__main__":
    main()
