"""`hasse study grounding`: sentences grounded in pictures, in other captions, or in both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hasse.lab.commands.options import DatasetFolder, Features
from hasse.lab.commands.train import Choices, ModelOut, NetworkWeights, Start, learn
from hasse.service.cli.terminal.configuration import parse_pairs, picture_limits
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Device

if TYPE_CHECKING:
    from hasse.lab.pipelines.training import TrainingPlan, TrainingRequest
    from hasse.lab.training.lesson import Lesson
    from hasse.studies.grounding.word_vectors import WordVectors

RecipeName = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="The options to start from: cap2img, cap2cap, cap2both, cap2order (Kiela et al.), "
        "mnlm, mnlm-linear (Kiros et al.), or a TOML file.",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        "--word-vectors",
        metavar="FILE",
        help="Word vectors as text, a word and its numbers a line: they stay with cap2..., and are "
        "the first ones with mnlm.",
    ),
]
RECIPES_OF_GROUNDING = Path(__file__).parent / "recipes"


def grounding(
    *,
    dataset: DatasetFolder,
    out: ModelOut,
    recipe: RecipeName,
    word_vectors: Vectors = None,
    features: Features = None,
    weights: NetworkWeights = None,
    start: Start = None,
    more: Choices = None,
    device: Device = "auto",
) -> None:
    """Train a model of sentences that are grounded in pictures.

    Stop it at any time and run the same command to go on.

    \b
    Example:
      hasse study grounding data/flickr8k --recipe cap2both --out data/cap2both \\
          --word-vectors vectors.txt --features data/flickr8k-features
    """
    from hasse.studies.grounding.word_vectors import WordVectors

    vectors = None if word_vectors is None else WordVectors.read(word_vectors)
    choices = choices_with(parse_pairs(more or ()), vectors)
    request = request_of(dataset, out, recipe, choices, features, weights, start)
    learn(request, device, lambda plan: lessons_of(plan, vectors))


def request_of(
    dataset: Path,
    out: Path,
    recipe: str,
    choices: dict[str, Any],
    features: Path | None = None,
    weights: Path | None = None,
    start: Path | None = None,
) -> TrainingRequest:
    """Return the request of a training.

    Raises:
        TrainingError: features are missing, or the model has no use for them.
    """
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.lab.pipelines.training import TrainingRequest
    from hasse.lab.training.recipe import RECIPES, Recipe, find
    from hasse.lab.training.run import TrainingError
    from hasse.studies.grounding.decoder import DecodingOptions
    from hasse.studies.grounding.sentence_model import SentenceModelConfig, captions_alone

    recipes, lessons = (RECIPES_OF_GROUNDING, RECIPES), (DecodingOptions(),)
    chosen = Recipe.read(find(recipe, recipes), lessons, SentenceModelConfig())
    shape = cast(SentenceModelConfig, chosen.with_options(choices).config.model)
    if shape.image_map == "identity":
        if features is None:
            raise TrainingError("points of images are features here: name some with --features")
        choices |= {"dimension": FeatureStore.open(features).maker.dimension}
    if shape.image_map == "none":
        if features is not None:
            raise TrainingError("this model learns from captions alone: leave --features out")
        choices |= {"dimension": shape.states or shape.dimension}
    return TrainingRequest(
        dataset,
        out,
        recipe,
        choices,
        features=features,
        weights=weights,
        start=start,
        limits=picture_limits(),
        recipes=recipes,
        lessons=lessons,
        model=SentenceModelConfig(),
        inputs=captions_alone if shape.image_map == "none" else None,
    )


def choices_with(choices: dict[str, Any], vectors: WordVectors | None) -> dict[str, Any]:
    """Add the size of word vectors to the options of a training.

    Raises:
        CommandError: the options name another size.
    """
    if vectors is None:
        return choices
    size = vectors.vectors.shape[1]
    if str(choices.get("word_dimension", size)) != str(size):
        raise CommandError(f"the word vectors have {size} numbers each: leave word_dimension out")
    return choices | {"word_dimension": size}


def lessons_of(plan: TrainingPlan, vectors: WordVectors | None) -> list[Lesson]:
    """Return the lessons of a planned training.

    Raises:
        TrainingError: the model's word vectors are fixed, and there are none; or it learns from
            captions alone, and from none of them.
    """
    from hasse.lab.training.run import TrainingError
    from hasse.studies.grounding.decoder import DecodingLesson
    from hasse.studies.grounding.sentence_model import SentenceModelConfig
    from hasse.studies.grounding.word_vectors import WordVectorLesson

    shape, (decoding,) = cast(SentenceModelConfig, plan.config.model), plan.lessons
    if shape.word_vectors == "fixed" and vectors is None:
        raise TrainingError("fixed word vectors come from a file: name one with --word-vectors")
    if shape.image_map == "none" and not decoding.decoding:
        raise TrainingError("captions alone are learned by decoding: set decoding above 0")
    lessons: list[Lesson] = [] if vectors is None else [WordVectorLesson(vectors)]
    return [*lessons, DecodingLesson(decoding)] if decoding.decoding else lessons
