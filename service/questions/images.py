"""Which images is each of several captions true of, by their content?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchResult
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    caption_probabilities,
    encode,
    search_key,
)
from hasse.service.questions.requests import ImagesQuery
from hasse.service.telemetry.stages import Stages


async def answer(engine: Engine, request: ImagesQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that each caption is true of, all in one generation."""
    captions = request.captions
    points = await encode(engine, captions, stages)
    key = search_key(engine, "image", request, len(captions))
    results = await engine.searcher.search(key, points, stages)
    pairs = list(zip(captions, results, strict=True))
    return lambda: {"answers": [_fields(engine, *pair) for pair in pairs]}


def _fields(engine: Engine, caption: str, result: SearchResult) -> Fields:
    probabilities = caption_probabilities(engine, caption, result.violations)
    return {
        "hits": result.image_hits(engine.paths, probabilities),
        **result.facts(engine.checkpoint.name),
        "unknown_words": engine.vocabulary.unknown_words(caption),
        "did_you_mean": None,
    }
