"""Which captions are true of a picture?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.questions.pipeline import AnswerBuilder, caption_hits, encode, search_key
from hasse.service.questions.requests import CaptionQuery
from hasse.service.telemetry.stages import Stages


async def answer(engine: Engine, request: CaptionQuery, stages: Stages) -> AnswerBuilder:
    """Return the captions that are true of a picture or a stored image, specific ones first."""
    (point,) = await encode(engine, [request.image], stages)
    key = search_key(engine, "caption", request)._replace(specific_first=True)
    (result,) = await engine.searcher.search(key, point[None], stages)
    facts = result.facts(engine.checkpoint.name)
    return lambda: {"hits": caption_hits(engine, result, point), **facts}
