"""Which images is a caption true of? For one caption, or for several together."""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.searching import Found
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import Fields, encode, finish, key_of
from hasse.service.questions.requests import ImageQuery, ImagesQuery


async def answer(engine: Engine, request: ImageQuery, stages: Stages) -> Fields:
    """Return the images that a caption is true of, the best first."""
    key = key_of(engine, "image", request)
    found = await engine.searcher.search_encoded(key, engine.encoder, request.caption, stages)
    return await finish(request, lambda: _fields(engine, request.caption, found))


async def answer_together(engine: Engine, request: ImagesQuery, stages: Stages) -> Fields:
    """Return the images that each caption is true of, all of one generation."""
    captions = request.captions
    points = await encode(engine, captions, stages)
    key = key_of(engine, "image", request, len(captions))
    each = await engine.searcher.search(key, points, stages)
    pairs = list(zip(captions, each, strict=True))
    return await finish(request, lambda: {"answers": [_fields(engine, *pair) for pair in pairs]})


def _fields(engine: Engine, caption: str, found: Found) -> Fields:
    probabilities = None
    if (known := engine.checkpoint.calibration.image) is not None:
        violations = found.ranking.violations
        probabilities = known.of(caption).probability(violations).round(4).tolist()
    return {
        "hits": found.image_hits(engine.paths, probabilities),
        **found.facts(engine.checkpoint.name),
        "unknown_words": engine.checkpoint.model.vocabulary.unknown(caption),
    }
