"""Which images or captions fit several parts at once, ranked by their worst part?"""

from __future__ import annotations

from collections.abc import Sequence

from hasse.index.types import Kind
from hasse.models.calibration import Calibration
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchResult, shortest_decimal
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    calibration_of,
    caption_hits,
    encode,
    search,
    unknown_words,
)
from hasse.service.questions.requests import AllOfQuery, CommonQuery, Part, SearchOptions
from hasse.service.telemetry.stages import Stages


async def answer_all_of(engine: Engine, request: AllOfQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that every part is true of, ranked by their worst part."""
    calibration, parts = engine.checkpoint.calibration.image, request.all_of
    calibrations = [
        calibration.for_text(part) if calibration and isinstance(part, str) else None
        for part in parts
    ]
    return await _answer(engine, "image", parts, calibrations, request, stages)


async def answer_common(engine: Engine, request: CommonQuery, stages: Stages) -> AnswerBuilder:
    """Return the captions that are true of every part, ranked by their worst part."""
    calibrations = [calibration_of(engine.checkpoint, part) for part in request.common]
    return await _answer(engine, "caption", request.common, calibrations, request, stages)


async def _answer(
    engine: Engine,
    kind: Kind,
    parts: Sequence[Part],
    calibrations: Sequence[Calibration | None],
    options: SearchOptions,
    stages: Stages,
) -> AnswerBuilder:
    """Search for all parts jointly; `calibrations` has that of each part, or None."""
    points = await encode(engine, parts, stages)
    result = await search(engine, kind, points, options, stages, joint=True)

    def build() -> Fields:
        is_image = kind == "image"
        hits = result.image_hits(engine.paths) if is_image else caption_hits(engine, result)
        by_part = _fields_by_part(result, calibrations)
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
    result: SearchResult, calibrations: Sequence[Calibration | None]
) -> dict[int, Fields]:
    """Return the violations of all parts and their least probability, by the id of the hit."""
    ranking = result.ranking
    if ranking.parts is None:
        raise TypeError("only a joint search has parts")
    texts = result.texts
    columns = [
        [None] * len(texts)
        if calibration is None
        else calibration.rounded_probabilities(texts, violations)
        for calibration, violations in zip(calibrations, ranking.parts.T, strict=True)
    ]
    return {
        hit: {
            "parts": [shortest_decimal(violation) for violation in violations],
            "probability": None if None in probabilities else min(probabilities),
        }
        for hit, violations, *probabilities in zip(
            ranking.ids.tolist(), ranking.parts, *columns, strict=True
        )
    }
