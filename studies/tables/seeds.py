"""Trainings of recipes with several seeds, and rankings by them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.evaluation.retrieval import Retrieval
from hasse.lab.features.source import with_features
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.lab.pipelines.evaluation import measure
from hasse.lab.pipelines.training import TrainingPlan
from hasse.lab.training.distributed import World
from hasse.lab.training.lesson import Lesson
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Dataset
from hasse.service.writing.image_source import ImageSource
from hasse.studies.tables.report import report_of, silent


def add_trainings(parser: argparse.ArgumentParser, recipes: Iterable[str]) -> None:
    """Add the options of a program that trains recipes with several seeds."""
    recipes = list(recipes)
    parser.add_argument("--out", type=Path, required=True, help="where the trainings are kept")
    parser.add_argument("--seeds", type=int, choices=range(1, 11), default=3)
    parser.add_argument(
        "--once", nargs="*", default=[], choices=recipes, help="trained with the first seed alone"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--set",
        dest="choices",
        nargs="*",
        default={},
        action=_Pairs,
        metavar="NAME=VALUE",
        help="in all trainings",
    )


class _Pairs(argparse.Action):
    """Reads NAME=VALUE words into a dictionary."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, dict(value.split("=", 1) for value in values))


def seeds_of(name: str, options: argparse.Namespace) -> range:
    """Return the seeds that a recipe is trained with."""
    return range(1 if name in options.once else options.seeds)


def train(plan: TrainingPlan, device: str, lessons: Sequence[Lesson] = ()) -> Checkpoint:
    """Train as planned, or return the training that the folder holds to its end."""
    training = plan.prepare(
        World(device), lambda label: nullcontext(silent), lambda line: None, lessons
    )
    return training.train(report_of(plan.request.out.name))


def retrieved(folder: Path, held_out: Dataset, features: Path) -> Retrieval:
    """Rank images and their captions with the checkpoint in a folder."""
    checkpoint = load(folder)
    encoded = encode_dataset(
        checkpoint.model, held_out, with_features(ImageSource(), features), silent
    )
    return measure(checkpoint, encoded, 1, silent).blocks[0]
