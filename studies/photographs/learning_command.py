"""`hasse study photographs train`, `calibrate` and `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.options import DatasetFolder, Features, Model
from hasse.lab.commands.train import Choices, ModelOut, NetworkWeights, Start, learn
from hasse.lab.features.source import with_features
from hasse.service.cli.terminal.configuration import parse_pairs, picture_limits
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Device, Json
from hasse.service.cli.terminal.progress import progress, tell
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.lab.pipelines.dataset_encoding import EncodedDataset
    from hasse.lab.pipelines.training import TrainingPlan
    from hasse.lab.training.lesson import Lesson
    from hasse.models.checkpoints.checkpoint import Checkpoint

TrainingFeatures = Annotated[
    Path,
    typer.Option("--features", "-f", metavar="DIR", help="Features of 'hasse lab features'."),
]
Texts = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Texts with features, of 'hasse study photographs features'. They need no pictures, "
        "and the model then knows their words.",
    ),
]
Derived = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also learn texts that follow from captions of training pictures, of 'hasse study "
        "photographs abstract --split train'.",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also learn the names of the network's own classes, of 'hasse study photographs "
        "classes'.",
    ),
]
ClassPictures = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="DATASET FEATURES",
        help="With --classes: real pictures of them too, named as n01440764_tench.jpg, and their "
        "features of 'hasse lab features'.",
    ),
]
RecipeName = Annotated[
    str, typer.Option("--recipe", metavar="NAME|FILE", help="The options to start from.")
]
Chains = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="Texts of pictures from general to specific, of 'hasse study photographs abstract', "
        "or a CSV of HierarCaps.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        show_default="the usual one, or without splits the pictures that training withholds",
        help="The pictures of the chains.",
    ),
]
RECIPES_OF_PHOTOGRAPHS = Path(__file__).parent / "recipes"


def train(
    *,
    dataset: DatasetFolder,
    out: ModelOut,
    features: TrainingFeatures,
    texts: Texts,
    recipe: RecipeName = "photographs",
    derived: Derived = None,
    classes: Classes = None,
    class_pictures: ClassPictures = None,
    weights: NetworkWeights = None,
    start: Start = None,
    more: Choices = None,
    device: Device = "auto",
) -> None:
    """Train a model that also learns from texts without pictures.

    Stop it at any time and run the same command to go on.

    \b
    Example:
      hasse study photographs train data/flickr8k \\
          --features data/flickr8k-features --texts data/text-features \\
          --derived data/chains-train.jsonl --out data/photographs
    """
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.lab.pipelines.training import TrainingRequest
    from hasse.lab.training.recipe import RECIPES
    from hasse.studies.photographs.lesson import TextLesson, TextOptions, TextSources

    request = TrainingRequest(
        dataset,
        out,
        recipe,
        parse_pairs(more or ()),
        features=features,
        weights=weights,
        start=start,
        limits=picture_limits(),
        recipes=(RECIPES_OF_PHOTOGRAPHS, RECIPES),
        lessons=(TextOptions(),),
    )

    def lessons(plan: TrainingPlan) -> list[Lesson]:
        encoder = FeatureStore.open(features).maker.backbone
        sources = TextSources.read(texts, derived, classes, class_pictures, encoder)
        return [TextLesson(sources, plan.lessons[0])]

    learn(request, device, lessons)


def calibrate(
    *,
    dataset: DatasetFolder,
    model: Annotated[Path, typer.Option("--model", "-m", metavar="DIR", help="The checkpoint.")],
    chains: Chains,
    split: Split = None,
    features: Features = None,
    classes: Classes = None,
    class_pictures: ClassPictures = None,
    device: Device = "auto",
) -> None:
    """Calibrate a model's probabilities for texts of all lengths, on chains.

    \b
    Example:
      hasse study photographs calibrate data/flickr8k --model data/photographs \\
          --chains data/chains.jsonl --features data/flickr8k-features
    """
    from hasse.models.datasets import load
    from hasse.studies.photographs.chain_calibration import calibrate_model
    from hasse.studies.photographs.chains import read_chains
    from hasse.studies.photographs.class_pictures import ClassFeatures
    from hasse.studies.photographs.classes import read_classes

    if (classes is None) != (class_pictures is None):
        raise CommandError("--classes and --class-pictures go together: name both, or neither")
    found = read_chains(chains)
    loaded, encoded = _encoded(dataset, split, "val", model, features, device)
    real, named = None, []
    if classes is not None and class_pictures is not None:
        named = read_classes(classes)
        real = ClassFeatures.read(class_pictures[1], load(class_pictures[0]), named)
    image = calibrate_model(loaded, encoded, found, real, named)
    typer.echo(
        f"{loaded.folder}: {count(image.pairs, 'pair')}, {image.true:,} of them true; each further "
        f"word adds {image.word_weight:g} to a violation"
    )


def evaluate(
    *,
    dataset: DatasetFolder,
    chains: Chains,
    model: Model = None,
    split: Split = None,
    features: Features = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure truth on chains: general texts before specific ones, true before false.

    \b
    Example:
      hasse study photographs evaluate data/flickr8k --chains data/chains.jsonl \\
          --features data/flickr8k-features
    """
    from hasse.studies.photographs.chain_report import measure_chains, show_chains
    from hasse.studies.photographs.chains import read_chains

    found = read_chains(chains)
    loaded, encoded = _encoded(dataset, split, "test", model, features, device)
    measured = measure_chains(loaded, encoded, found)
    if as_json:
        typer.echo(json.dumps({"model": loaded.name, **measured}, indent=2))
    else:
        show_chains(measured)


def _encoded(
    dataset: Path,
    split: str | None,
    usual: str,
    model: Path | None,
    features: Path | None,
    device: str,
) -> tuple[Checkpoint, EncodedDataset]:
    """Load a model and encode the images of a split with it."""
    from hasse.lab.checkpoints import learned_model
    from hasse.lab.pipelines.dataset_encoding import encode_dataset
    from hasse.lab.pipelines.training import part_to_measure
    from hasse.models.checkpoints import named_models
    from hasse.models.datasets import load
    from hasse.service.core.device import pick_device
    from hasse.service.writing.image_source import ImageSource

    part = part_to_measure(load(dataset), split, usual, tell)
    loaded = learned_model.load(named_models.find_or_default(model, part), pick_device(device))
    source = with_features(ImageSource(skipped=tell, limits=picture_limits()), features)
    with progress("encoding") as report:
        return loaded, encode_dataset(loaded.model, part, source, report)
