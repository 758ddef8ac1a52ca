"""Which images or captions fit several parts at once, ranked by their worst part?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hasse.index.types import Kind, Points
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchResult, shortest_decimal
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_hits,
    caption_probabilities,
    encode,
    judge_of,
    search,
    unknown_words,
)
from hasse.service.questions.requests import AllOfQuery, CommonQuery, Part, SearchOptions
from hasse.service.telemetry.stages import Stages


async def answer_all_of(engine: Engine, request: AllOfQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that every part is true of, ranked by their worst part."""
    return await _answer(engine, "image", request.all_of, request, stages)


async def answer_common(engine: Engine, request: CommonQuery, stages: Stages) -> AnswerBuilder:
    """Return the captions that are true of every part, ranked by their worst part."""
    return await _answer(engine, "caption", request.common, request, stages)


async def _answer(
    engine: Engine, kind: Kind, parts: Sequence[Part], options: SearchOptions, stages: Stages
) -> AnswerBuilder:
    """Search for all parts jointly."""
    points = await encode(engine, parts, stages)
    result = await search(engine, kind, points, options, stages, joint=True)

    def build() -> Fields:
        is_image = kind == "image"
        hits = (
            result.image_hits(engine.paths) if is_image else caption_hits(engine, result, points[0])
        )
        by_part = _fields_by_part(engine, parts, points, result, is_image=is_image)
        knows = engine.vocabulary.knows
        for hit in hits:
            hit.update(by_part[hit[f"{kind}_id"]])
            if not is_image and not knows(hit["caption"]):
                hit["probability"] = None
            if is_image:
                hit["shows"] = {name: hit[name] for name in ("violation", "probability")}
        unknown = unknown_words(engine.checkpoint, parts)
        facts = result.facts(engine.checkpoint.name)
        if is_image:
            facts["did_you_mean"] = None
        return {"hits": hits, "unknown_words": unknown, **facts}

    return build


def _fields_by_part(
    engine: Engine, parts: Sequence[Part], points: Points, result: SearchResult, *, is_image: bool
) -> dict[int, Fields]:
    """Return the violations of all parts and their least probability, by the id of the hit."""
    ranking = result.ranking
    if ranking.parts is None:
        raise TypeError("only a joint search has parts")
    ids = ranking.ids.tolist()
    columns = [
        _of_images(engine, part, dict(zip(ids, violations.tolist(), strict=True)))
        if is_image
        else _of_captions(engine, part, point, result.texts, violations)
        for part, point, violations in zip(parts, points, ranking.parts.T, strict=True)
    ]
    return {
        hit: {
            "parts": [shortest_decimal(violation) for violation in violations],
            "probability": None if None in probabilities else min(probabilities),
        }
        for hit, violations, *probabilities in zip(ids, ranking.parts, *columns, strict=True)
    }


def _of_images(engine: Engine, part: Part, images: Mapping[int, float]) -> list[float | None]:
    """Return how likely a text is true of each image; None for a picture, which is no text."""
    if not isinstance(part, str):
        return [None] * len(images)
    return caption_probabilities(engine, part, images)


def _of_captions(
    engine: Engine, part: Part, point: Points, texts: Sequence[str], violations: Points
) -> list[float] | list[None]:
    """Return how likely each text follows from a part with a point (N,)."""
    judge = judge_of(engine.checkpoint, part)
    if judge is None:
        return [None] * len(texts)
    model = engine.checkpoint.model
    (premise,) = model.as_premises(point[None]) if isinstance(part, str) else point[None]
    premises = np.broadcast_to(premise, (len(texts), len(premise)))
    return list(judge.probabilities(texts, premises, violations).round(4).tolist())
