"""The gain of each step from the paper's recipe to ours, on one set of features.

    python -m hasse.studies.tables.recipes data/flickr8k data/flickr8k-features --out data/recipes

Every recipe is trained with several seeds on the training split and measured on the validation
split, at its best epoch, as `hasse lab train` keeps it. The table gives the means over the seeds,
of rsum with the lowest and the highest seed. Below it, rsum and recalls of the recipe `hasse` less
those of the paper's `order`, of the order less the cosine trained the same way, before and after
the last two steps, and of the last step: means over the seeds, with 95 % intervals of a paired
bootstrap over the images and the seeds.

Trainings are kept in --out: run the command again to go on after a stop, or with more seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hasse.lab.evaluation.retrieval import Evaluation, Retrieval
from hasse.lab.evaluation.significance import (
    SAMPLES,
    Floats,
    Interval,
    Intervals,
    difference,
    percentiles,
    resample,
    same_queries,
)
from hasse.lab.pipelines.training import TrainingPlan, TrainingRequest
from hasse.studies.tables.report import markdown, parser_of, ranged
from hasse.studies.tables.seeds import add_trainings, retrieved, seeds_of, train


@dataclass(frozen=True, slots=True)
class Change:
    """A recipe with some options changed.

    Attributes:
        words: its name in the table.
        start: the recipe.
        changes: other values of its options.
    """

    words: str
    start: str
    changes: Mapping[str, Any]


# The paper's recipe, and one change after the other up to the recipe hasse.
FALLING: dict[str, Any] = {
    "schedule": "cosine",
    "epochs": 60,
    "patience": 60,
    "batch_size": 512,
    "learning_rate": 4e-3,
    "warm_up": 20,
}
# Captions that are read in one direction, and with points of one length.
FORWARD: dict[str, Any] = {"directions": "forward"}
ALIKE: dict[str, Any] = {**FORWARD, "hubness": 0}
RECIPES: Mapping[str, Change] = {
    "order": Change("the paper's", "order", {}),
    "falling": Change(
        "+ batches of 512, and a rate that falls from 4e-3 to zero over 60 epochs", "order", FALLING
    ),
    "views": Change("+ features of random crops", "order", FALLING | {"views": True}),
    "max": Change(
        "+ the join of all states of a caption, 5 % of words unknown",
        "order",
        FALLING | {"views": True, "caption_pooling": "max", "unknown_rate": 0.05},
    ),
    "contrastive": Change(
        "+ the contrastive loss, from 8e-3 over 32 epochs, decaying weights, 15 % of words unknown",
        "hasse",
        ALIKE | {"ensemble": 1, "image_pooling": "average", "inverse_temperature": 30.0},
    ),
    "ensemble": Change(
        "+ an ensemble of two that share the coordinates",
        "hasse",
        ALIKE | {"image_pooling": "average", "inverse_temperature": 30.0},
    ),
    "regions": Change(
        "+ features of regions of the pictures", "hasse", ALIKE | {"inverse_temperature": 30.0}
    ),
    "sharper": Change("+ a sharper loss, of 45 instead of 30", "hasse", ALIKE),
    "sharper-cosine": Change(
        "the same with the score cosine, and the inverse temperature that is best for it, 14",
        "hasse",
        ALIKE | {"score": "cosine", "inverse_temperature": 14.0},
    ),
    "evened": Change("+ lengths that even out hubs", "hasse", FORWARD),
    "hasse": Change("+ one of the two reads backwards: recipe `hasse`", "hasse", {}),
    "hasse-cosine": Change(
        "`hasse` with the score cosine, and an inverse temperature of 14",
        "hasse",
        {"score": "cosine", "inverse_temperature": 14.0},
    ),
    "cosine": Change("the paper's, with the score cosine", "cosine", {}),
}
COMPARED = (
    ("hasse", "order"),
    ("sharper", "sharper-cosine"),
    ("hasse", "hasse-cosine"),
    ("hasse", "evened"),
)


def trained(
    recipe: Change, seed: int, options: argparse.Namespace, folder: Path
) -> tuple[Retrieval, float]:
    """Train a recipe, or find it trained; return its rankings and the seconds it took."""
    request = TrainingRequest(
        options.dataset,
        folder,
        recipe.start,
        {"seed": seed, **recipe.changes, **options.choices},
        features=options.features,
        weights=options.weights,
    )
    plan = TrainingPlan.of(request, options.device)
    train(plan, options.device)
    seconds = json.loads((folder / "metrics.json").read_bytes())["seconds"]
    return retrieved(folder, plan.collections[1], options.features), float(seconds)


def differences_of_trainings(mine: Sequence[Retrieval], others: Sequence[Retrieval]) -> Intervals:
    """Return the intervals of (mean metrics of `mine`) - (mean metrics of `others`), paired.

    Each is what one training of a recipe retrieves, all of the same queries. A draw is one of the
    images, the same for all, and one of the trainings of each recipe: so the intervals hold what
    other pictures and what other seeds would change.

    Raises:
        ValueError: they are not of the same queries.
    """
    if not all(same_queries(mine[0], one) for one in (*mine, *others)):
        raise ValueError("only rankings of the same images and captions can be compared")
    draw = np.random.default_rng(0)
    return percentiles(_drawn_mean(mine, draw) - _drawn_mean(others, draw))


def _drawn_mean(trainings: Sequence[Retrieval], draw: np.random.Generator) -> Floats:
    """Return the mean of trainings that are drawn with replacement: as `resample`."""
    every = np.stack([resample([one]) for one in trainings])
    count = len(trainings)
    shares = draw.multinomial(count, [1 / count] * count, SAMPLES) / count  # (SAMPLES, trainings)
    mean: Floats = np.einsum("st,tdms->dms", shares, every)
    return mean


def row(name: str, runs: list[tuple[Retrieval, float]]) -> list[str]:
    """Return the cells of one line of the table: means over the seeds."""
    found = [run.evaluation for run, _ in runs]
    metrics = [
        np.mean([getattr(getattr(one, direction), metric) for one in found])
        for direction in ("caption_retrieval", "image_retrieval")
        for metric in ("r1", "r5", "r10", "median")
    ]
    minutes = np.mean([seconds for _, seconds in runs]) / 60
    rsum = ranged([one.rsum for one in found])
    return [name, rsum, *(f"{value:.1f}" for value in metrics), f"{minutes:.0f}"]


def comparison(name: str, mine: list[Retrieval], against: str, others: list[Retrieval]) -> str:
    """Return one line: differences of the means over the seeds, with their intervals."""
    ours, theirs = (Evaluation.mean([run.evaluation for run in runs]) for runs in (mine, others))
    gaps, found = difference(ours, theirs), differences_of_trainings(mine, others)
    captions = found.metrics["caption_retrieval"]["r1"]
    shown = [
        _difference("rsum", gaps["rsum"], found.rsum),
        _difference("caption R@1", gaps["caption_retrieval"]["r1"], captions),
    ]
    for metric, words in (("r1", "R@1"), ("r5", "R@5"), ("r10", "R@10")):
        interval = found.metrics["image_retrieval"][metric]
        shown.append(_difference(f"image {words}", gaps["image_retrieval"][metric], interval))
    return f"{name} less {against}: {', '.join(shown)}"


def _difference(words: str, gap: float, interval: Interval) -> str:
    low, high = interval
    return f"{words} {gap:+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    """Train missing models and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("features", type=Path, help="made by 'hasse lab features'")
    parser.add_argument("--weights", type=Path, help="those the features were made with")
    add_trainings(parser, RECIPES)
    parser.add_argument("--only", nargs="*", choices=RECIPES, metavar="NAME", help="these recipes")
    options = parser.parse_args()
    names = options.only or list(RECIPES)

    started = time.monotonic()
    runs = {
        name: [
            trained(RECIPES[name], seed, options, options.out / f"{name}-{seed}")
            for seed in seeds_of(name, options)
        ]
        for name in RECIPES
        if name in names
    }
    sides = ("captions R@1", "R@5", "R@10", "median", "images R@1", "R@5", "R@10", "median")
    rows = [row(RECIPES[name].words, found) for name, found in runs.items()]
    print(markdown(("recipe", "rsum (seeds)", *sides, "minutes"), rows))
    print()
    for name, against in COMPARED:
        if name in runs and against in runs:
            mine, others = ([run for run, _ in runs[each]] for each in (name, against))
            print(comparison(name, mine, against, others))
    print(f"\n{options.seeds} seeds; {time.monotonic() - started:.0f} s for what was not kept")


if __name__ == "__main__":
    main()
