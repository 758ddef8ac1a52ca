"""The gain of each step from captions alone to the recipe `photographs`.

    python -m hasse.studies.tables.texts data/flickr8k data/features --texts data/text-features \\
        --derived data/derived.jsonl --classes data/classes.jsonl \\
        --class-pictures data/imagenet-one data/class-features --chains data/chains.jsonl \\
        --on data/flickr8k data/features data/looked-through.jsonl \\
        --on data/coco data/coco-features data/coco-chains.jsonl --out data/steps

docs/training.md tells how each of these is made. Every recipe is trained with several seeds, and
measured on each --on: a dataset (of one that has it the split "val"), features of its
pictures, and chains from general to specific. The tables give means over the seeds: recalls, how
many short queries bring a right picture first (`studies.tables.photographs` has the rule), and
of the violation AUC with one threshold for all levels, AUC of true specific against false general
texts, and Kendall's tau of generality and truth. The last row is the same models' probability,
calibrated on --chains. Below each table are differences of recipes, with 95 % intervals of a paired
bootstrap over the pictures and the seeds. --beside measures models that are there already, and
compares each with those named after it; of several seeds of one, name all.

Trainings are kept in --out: run the command again to go on after a stop, or with more seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.evaluation.retrieval import Retrieval
from hasse.lab.features.feature_store import FeatureStore
from hasse.lab.features.source import with_features
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.lab.pipelines.evaluation import measure
from hasse.lab.pipelines.training import TrainingPlan, TrainingRequest
from hasse.models.checkpoints.named_models import find
from hasse.models.datasets import load as load_dataset
from hasse.service.writing.image_source import ImageSource
from hasse.studies.photographs.chain_calibration import calibrate_model
from hasse.studies.photographs.chain_report import measure_chains
from hasse.studies.photographs.chains import read_chains
from hasse.studies.photographs.learning_command import RECIPES_OF_PHOTOGRAPHS
from hasse.studies.photographs.lesson import TextLesson, TextOptions, TextSources
from hasse.studies.tables.photographs import answer
from hasse.studies.tables.recipes import comparison
from hasse.studies.tables.report import markdown, parser_of, ranged, silent
from hasse.studies.tables.seeds import add_trainings, seeds_of
from hasse.studies.tables.seeds import train as train_planned
from hasse.studies.wordnet.lexicon import Lexicon

SOURCES = ("texts", "derived", "classes", "class_pictures")


# What the table calls a recipe, and how many of `SOURCES` it learns from.
RECIPES: Mapping[str, tuple[str, int]] = {
    "captions": ("captions alone", 0),
    "texts": ("+ texts without pictures", 1),
    "derived": ("+ texts that follow from captions", 2),
    "classes": ("+ classes, without pictures", 3),
    "photographs": ("+ a picture of each class: `photographs`", 4),
}
HEADS = (
    "recipe",
    "seeds",
    "rsum (seeds)",
    "captions R@1",
    "images R@1",
    "short queries",
    "AUC, one threshold",
    "AUC, specific against general",
    "tau",
)
COMPARED = (("photographs", "captions"), ("photographs", "texts"), ("photographs", "derived"))


@dataclass(frozen=True, slots=True)
class Found:
    """Measurements of one training on one dataset.

    Attributes:
        right: short queries that bring a right picture first.
        truth: of the violation and of the probability: the three figures of chains.
    """

    retrieval: Retrieval
    right: int
    truth: Mapping[str, tuple[float, float, float]]


def train(sources: int, seed: int, options: argparse.Namespace, folder: Path) -> None:
    """Train on so many of `SOURCES`, or find the training done."""
    request = TrainingRequest(
        options.dataset,
        folder,
        "photographs",
        {"seed": seed, **options.choices},
        features=options.features,
        recipes=(RECIPES_OF_PHOTOGRAPHS,),
        lessons=(TextOptions(),),
    )
    plan = TrainingPlan.of(request, options.device)
    names = SOURCES[:sources]
    derived, classes, class_pictures = (
        getattr(options, name) if name in names else None for name in SOURCES[1:]
    )
    lessons: list[TextLesson] = []
    found = None
    if sources:
        encoder = FeatureStore.open(options.features).maker.backbone
        found = TextSources.read(options.texts, derived, classes, class_pictures, encoder)
        lessons = [TextLesson(found, plan.lessons[0])]
    model = train_planned(plan, options.device, lessons)
    source = with_features(ImageSource(), options.features)
    encoded = encode_dataset(model.model, plan.collections[1], source, silent)
    chains = read_chains(options.chains)
    if found is None:
        calibrate_model(model, encoded, chains)
    else:
        calibrate_model(model, encoded, chains, found.class_features, found.classes)


def measured(folder: Path, on: Sequence[Path], lexicon: Lexicon) -> Found:
    """Measure a training on a dataset, features of it, and chains of it."""
    dataset, features, chains = on
    checkpoint, whole = load(folder), load_dataset(dataset)
    part = whole.split("val") if "val" in whole.splits() else whole
    encoded = encode_dataset(checkpoint.model, part, with_features(ImageSource(), features), silent)
    found = measure(checkpoint, encoded, 1, silent)
    on_chains = measure_chains(checkpoint, encoded, read_chains(chains))
    names = (("all", "auc"), ("specific_true_general_false", "auc"))
    truth = {
        kind: (
            *(on_chains[kind][pairs][name]["value"] for pairs, name in names),
            on_chains[kind]["tau"]["value"],
        )
        for kind in ("violation", "probability")
    }
    right = sum(answer(checkpoint, encoded, lexicon).values())
    return Found(found.blocks[0], right, truth)


def row(words: str, found: Sequence[Found], kind: str = "violation") -> list[str]:
    """Return the cells of one line of the table: means over the seeds."""
    runs = [one.retrieval.evaluation for one in found]
    means = [
        np.mean([one.caption_retrieval.r1 for one in runs]),
        np.mean([one.image_retrieval.r1 for one in runs]),
        np.mean([one.right for one in found]),
    ]
    truth = np.array([one.truth[kind] for one in found]).mean(0)
    rsum = ranged([one.rsum for one in runs])
    cells = [*(f"{value:.1f}" for value in means), *(f"{value:.3f}" for value in truth)]
    return [words, str(len(found)), rsum, *cells]


def tables(runs: Mapping[str, Sequence[Found]], beside: Mapping[str, Sequence[Found]]) -> str:
    """Return the table of recipes and of models beside them, and below it what was compared."""
    rows = [row(RECIPES[name][0], found) for name, found in runs.items()]
    if "photographs" in runs:
        rows.append(row("+ calibrated on chains", runs["photographs"], "probability"))
    for name, found in beside.items():
        rows += [row(name, found), row(f"{name}, by its probability", found, "probability")]
    lines = [markdown(HEADS, rows), ""]
    every = {**runs, **beside}
    for name, against in (*COMPARED, *combinations(beside, 2)):
        if name in every and against in every:
            mine, others = ([one.retrieval for one in every[each]] for each in (name, against))
            lines.append(comparison(name, mine, against, others))
    return "\n".join(lines)


def main() -> None:
    """Train missing models and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("features", type=Path, help="made by 'hasse lab features'")
    for name in ("texts", "derived", "classes", "chains"):
        parser.add_argument(
            f"--{name}", type=Path, required=True, help="as of 'hasse study photographs'"
        )
    parser.add_argument("--class-pictures", type=Path, nargs=2, required=True)
    parser.add_argument("--on", type=Path, nargs=3, action="append", required=True)
    add_trainings(parser, RECIPES)
    parser.add_argument("--only", nargs="*", choices=RECIPES, metavar="NAME", help="these recipes")
    parser.add_argument(
        "--beside",
        type=Path,
        nargs="+",
        action="append",
        default=[],
        metavar="MODEL",
        help="a model to measure too, or trainings of it with several seeds",
    )
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    options = parser.parse_args()
    options.class_pictures = tuple(options.class_pictures)
    lexicon = Lexicon.read(options.wordnet)

    folders: dict[str, list[Path]] = {}
    for name in options.only or RECIPES:
        folders[name] = [options.out / f"{name}-{seed}" for seed in seeds_of(name, options)]
        for seed, folder in enumerate(folders[name]):
            train(RECIPES[name][1], seed, options, folder)
    for on in options.on:
        runs = {
            name: [measured(folder, on, lexicon) for folder in every]
            for name, every in folders.items()
        }
        beside = {
            f"`{models[0].name.removesuffix('-0')}`": [
                measured(find(model), on, lexicon) for model in models
            ]
            for models in options.beside
        }
        print(f"{load_dataset(on[0]).name}:\n\n{tables(runs, beside)}\n", flush=True)


if __name__ == "__main__":
    main()
