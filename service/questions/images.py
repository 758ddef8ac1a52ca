"""Which images is each of several captions true of, by what they show?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchResult
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import (
    Fields,
    Making,
    caption_probabilities,
    encode,
    key_of,
)
from hasse.service.questions.requests import ImagesQuery


async def answer(engine: Engine, request: ImagesQuery, stages: Stages) -> Making:
    """Return the images that each caption is true of, all of one generation."""
    captions = request.captions
    points = await encode(engine, captions, stages)
    key = key_of(engine, "image", request, len(captions))
    each = await engine.searcher.search(key, points, stages)
    pairs = list(zip(captions, each, strict=True))
    return lambda: {"answers": [_fields(engine, *pair) for pair in pairs]}


def _fields(engine: Engine, caption: str, found: SearchResult) -> Fields:
    violations = found.ranking.violations.tolist()
    probabilities = caption_probabilities(engine, caption, violations)
    return {
        "hits": found.image_hits(engine.paths, probabilities),
        **found.facts(engine.checkpoint.name),
        "unknown_words": engine.vocabulary.unknown_words(caption),
        "did_you_mean": None,
    }
