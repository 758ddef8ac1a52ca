"""What fits several parts at once, ranked by the part that it fits worst."""

from __future__ import annotations

from collections.abc import Sequence

from hasse.index.types import Kind
from hasse.models.evaluation.calibration import Calibration
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchResult, shortest_decimal
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import (
    Fields,
    Making,
    calibration_of,
    caption_hits,
    encode,
    search,
    unknown_words,
)
from hasse.service.questions.requests import AllOfQuery, CommonQuery, Part, SearchOptions


async def answer_all_of(engine: Engine, request: AllOfQuery, stages: Stages) -> Making:
    """Return the images that every part is true of, ranked by the part that each fits worst."""
    known, parts = engine.checkpoint.calibration.image, request.all_of
    calibrations = [
        known.for_text(part) if known and isinstance(part, str) else None for part in parts
    ]
    return await _jointly(engine, "image", parts, calibrations, request, stages)


async def answer_common(engine: Engine, request: CommonQuery, stages: Stages) -> Making:
    """Return the captions that are true of every part, ranked by the part that each fits worst."""
    calibrations = [calibration_of(engine.checkpoint, part) for part in request.common]
    return await _jointly(engine, "caption", request.common, calibrations, request, stages)


async def _jointly(
    engine: Engine,
    kind: Kind,
    parts: Sequence[Part],
    calibrations: Sequence[Calibration | None],
    options: SearchOptions,
    stages: Stages,
) -> Making:
    """Return the answer to a search by parts, each of which has a calibration or none."""
    points = await encode(engine, parts, stages)
    found = await search(engine, kind, points, options, stages, joint=True)

    def make() -> Fields:
        hits = found.image_hits(engine.paths) if kind == "image" else caption_hits(engine, found)
        each = _each(found, calibrations)
        knows = engine.vocabulary.knows
        for hit in hits:
            hit.update(each[hit[f"{kind}_id"]])
            if kind == "caption" and not knows(hit["caption"]):
                hit["probability"] = None
            if kind == "image":
                hit["shows"] = {name: hit[name] for name in ("violation", "probability")}
        unknown = unknown_words(engine.checkpoint, parts)
        facts = found.facts(engine.checkpoint.name)
        if kind == "image":
            facts["did_you_mean"] = None
        return {"hits": hits, "unknown_words": unknown, **facts}

    return make


def _each(found: SearchResult, calibrations: Sequence[Calibration | None]) -> dict[int, Fields]:
    """Return, by the id of the hit, the violations of all parts and their least probability."""
    ranking = found.ranking
    if ranking.parts is None:
        raise TypeError("only a joint search has parts")
    texts = found.texts
    by_part = [
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
            ranking.ids.tolist(), ranking.parts, *by_part, strict=True
        )
    }
