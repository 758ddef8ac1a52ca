"""Is a caption true of a picture, or does it follow from another caption?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.score import penalties_of
from hasse.service.core.encoding import BoxQuery
from hasse.service.core.engine import Engine
from hasse.service.core.searching import shortest_decimal
from hasse.service.questions.answers import Entailment
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    encode,
    judge_of,
    unknown_words,
)
from hasse.service.questions.requests import EntailsQuery, PairQuery, PairsQuery, Part
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_true, may_be_true

if TYPE_CHECKING:
    from PIL import Image

    from hasse.models.grounding.demands import Phrase

ENLARGEMENT = 2  # factor of both sides of a picture, to find boxes of things in it


async def answer(engine: Engine, request: EntailsQuery, stages: Stages) -> AnswerBuilder:
    """Judge whether a hypothesis follows from a premise; find boxes of the things in a picture.

    Raises:
        ServiceError: also `picture_missing`, for boxes in an image of the collection.
    """
    premise, hypothesis = request.premise, request.hypothesis
    points = await encode(engine, [premise, hypothesis], stages)
    fields = entailment_fields(engine.checkpoint, premise, hypothesis, points)
    if not request.where:
        return lambda: fields
    if isinstance(premise, str):
        return lambda: fields | {"where": []}
    phrases = _phrases(engine.checkpoint, hypothesis, fields["probability"])
    boxes: Iterable[Points] = ()
    if phrases:
        from hasse.service.core import records  # imports the decoder of pictures

        source = await records.picture_source(engine, premise)
        enlarged = engine.checkpoint.model.preprocessing.enlarged(ENLARGEMENT)
        pixels = await engine.pictures.pixels(source, stages, enlarged)
        boxes = await engine.encoder.encode(BoxQuery(pixels, phrases), stages)
    return lambda: fields | {"where": _place_fields(phrases, boxes)}


def _phrases(model: Checkpoint, text: str, probability: float | None) -> tuple[Phrase, ...]:
    """Return the phrases of a text that the model can find in a picture; none if it is false."""
    from hasse.models.grounding.grounded_texts import GroundedTexts

    encoder = model.model
    is_false = probability is not None and not may_be_true(probability)
    if is_false or not isinstance(encoder, GroundedTexts):
        return ()
    return tuple(encoder.demands.phrases(text))


def _place_fields(phrases: Sequence[Phrase], boxes: Iterable[Points]) -> list[Fields]:
    """Return the fields of a `Place` for each phrase with a box."""
    sides = ("left", "top", "right", "bottom")
    return [
        {"text": phrase.text}
        | {name: round(side, 4) for name, side in zip(sides, box.tolist(), strict=True)}
        for phrase, box in zip(phrases, boxes, strict=True)
        if box.any()
    ]


async def answer_batch(engine: Engine, request: PairsQuery, stages: Stages) -> AnswerBuilder:
    """Judge for each pair whether its hypothesis follows from its premise."""
    pairs = request.pairs
    parts = [part for pair in pairs for part in (pair.premise, pair.hypothesis)]
    points = await encode(engine, parts, stages)
    model = engine.checkpoint

    def fields_of(at: int, pair: PairQuery) -> Fields:
        pair_points = points[2 * at : 2 * at + 2]
        return entailment_fields(model, pair.premise, pair.hypothesis, pair_points)

    return lambda: {"answers": [fields_of(at, pair) for at, pair in enumerate(pairs)]}


def answer_without_index(
    model: Checkpoint, request: EntailsQuery, picture: Image.Image | None
) -> Entailment:
    """Judge a pair without an index; `picture` is the premise, unless that is a text."""
    encoder, premise, hypothesis = model.model, request.premise, request.hypothesis
    premise_point = (
        encoder.encode_captions([str(premise)])
        if picture is None
        else encoder.encode_images([picture])
    )
    points = np.concatenate([premise_point, encoder.encode_captions([hypothesis])])
    fields = entailment_fields(model, premise, hypothesis, points)
    if request.where:
        fields["where"] = []
        if picture is not None:
            phrases = _phrases(model, hypothesis, fields["probability"])
            fields["where"] = _place_fields(phrases, _find_boxes(encoder, picture, phrases))
    return Entailment.model_validate(fields)


def _find_boxes(
    encoder: EmbeddingModel, picture: Image.Image, phrases: tuple[Phrase, ...]
) -> Iterable[Points]:
    if not phrases:
        return ()
    from hasse.models.grounding.boxes import find_boxes

    return find_boxes(encoder, encoder.preprocessing.enlarged(ENLARGEMENT).apply(picture), phrases)


def entailment_fields(model: Checkpoint, premise: Part, hypothesis: str, points: Points) -> Fields:
    """Return the fields of an `Entailment` for a pair with points (2, N)."""
    parts, knows = [premise, hypothesis], model.vocabulary.knows
    premises = model.model.as_premises(points[:1]) if isinstance(premise, str) else points[:1]
    (violation,) = penalties_of(model.model.config.score, premises[0], points[1:])
    probability = None
    judge = judge_of(model, premise)
    if judge and all(not isinstance(part, str) or knows(part) for part in parts):
        (found,) = judge.probabilities([hypothesis], premises, [violation])
        probability = round(float(found), 4)
    return {
        "violation": shortest_decimal(np.float32(violation)),
        "probability": probability,
        "entailed": None if probability is None else is_true(probability),
        "unknown_words": unknown_words(model, parts),
        "where": None,
        "model": model.name,
    }
