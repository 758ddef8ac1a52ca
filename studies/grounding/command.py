"""`hasse study grounding`: sentences grounded in pictures, in other captions, or in both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.model.train import Choices, ModelOut, NetworkWeights, Start, learn
from hasse.service.cli.terminal.configuration import parse_pairs, picture_limits
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import DatasetFolder, Device, Features

if TYPE_CHECKING:
    from hasse.models.training.lesson import Lesson
    from hasse.service.pipelines.training import TrainingPlan
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
    from hasse.models.training.recipe import RECIPES
    from hasse.service.pipelines.training import TrainingRequest
    from hasse.studies.grounding.decoder import DecodingOptions
    from hasse.studies.grounding.word_vectors import WordVectors

    vectors = None if word_vectors is None else WordVectors.read(word_vectors)
    request = TrainingRequest(
        dataset,
        out,
        recipe,
        choices_with(parse_pairs(more or ()), vectors),
        features=features,
        weights=weights,
        start=start,
        limits=picture_limits(),
        recipes=(RECIPES_OF_GROUNDING, RECIPES),
        lessons=(DecodingOptions(),),
    )
    learn(request, device, lambda plan: lessons_of(plan, vectors))


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
        TrainingError: the model's word vectors are fixed, and there are none.
    """
    from hasse.models.training.run import TrainingError
    from hasse.studies.grounding.decoder import DecodingLesson
    from hasse.studies.grounding.word_vectors import WordVectorLesson

    if plan.config.model.word_vectors == "fixed" and vectors is None:
        raise TrainingError("fixed word vectors come from a file: name one with --word-vectors")
    lessons: list[Lesson] = [] if vectors is None else [WordVectorLesson(vectors)]
    (decoding,) = plan.lessons
    return [*lessons, DecodingLesson(decoding)] if decoding.decoding else lessons
