"""Is a caption true of a picture, or does it follow from another caption?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.models.score import penalty_between
from hasse.service.core.engine import Engine
from hasse.service.core.searching import plain
from hasse.service.core.stages import Stages
from hasse.service.questions.answers import Entailment
from hasse.service.questions.pipeline import Fields, calibration_of, encode, unknown_words
from hasse.service.questions.requests import EntailsQuery, PairsQuery, Part
from hasse.service.verdict import is_true

if TYPE_CHECKING:
    from PIL import Image


async def answer(engine: Engine, request: EntailsQuery, stages: Stages) -> Fields:
    """Tell whether a hypothesis follows from a premise."""
    points = await encode(engine, [request.premise, request.hypothesis], stages)
    violation = _violation(engine.checkpoint, isinstance(request.premise, str), points)
    return judgement(engine.checkpoint, request.premise, request.hypothesis, violation)


async def answer_together(engine: Engine, request: PairsQuery, stages: Stages) -> Fields:
    """Tell for each pair whether its hypothesis follows from its premise."""
    pairs = request.pairs
    parts = [part for pair in pairs for part in (pair.premise, pair.hypothesis)]
    points = await encode(engine, parts, stages)
    each = [
        _violation(engine.checkpoint, isinstance(pair.premise, str), points[2 * at : 2 * at + 2])
        for at, pair in enumerate(pairs)
    ]
    return {
        "answers": [
            judgement(engine.checkpoint, pair.premise, pair.hypothesis, violation)
            for pair, violation in zip(pairs, each, strict=True)
        ]
    }


def without_index(
    model: Checkpoint, request: EntailsQuery, picture: Image.Image | None
) -> Entailment:
    """Judge a pair by a model alone; `picture` is that of a premise which is one."""
    encoder, premise = model.model, request.premise
    points = (
        encoder.encode_captions([str(premise)])
        if picture is None
        else encoder.encode_images([picture])
    )
    both = np.concatenate([points, encoder.encode_captions([request.hypothesis])])
    violation = _violation(model, picture is None, both)
    return Entailment.model_validate(judgement(model, premise, request.hypothesis, violation))


def _violation(model: Checkpoint, is_text: bool, points: Points) -> np.float32:
    """Return the violation of a premise, which may be a text, and a hypothesis: (2, N) -> ()."""
    (first,) = model.model.as_premises(points[:1]) if is_text else points[:1]
    return penalty_between(model.model.config.score, first, points[1])


def judgement(model: Checkpoint, premise: Part, hypothesis: str, violation: np.float32) -> Fields:
    """Return the fields of an `Entailment`: what the violation of a pair means."""
    parts, knows = [premise, hypothesis], model.vocabulary.knows
    probability = None
    calibration = calibration_of(model, premise)
    if calibration and all(not isinstance(part, str) or knows(part) for part in parts):
        probability = round(float(calibration.of(hypothesis).probability(violation)), 4)
    return {
        "violation": plain(np.float32(violation)),
        "probability": probability,
        "entailed": None if probability is None else is_true(probability),
        "unknown_words": unknown_words(model, parts),
        "model": model.name,
    }
