"""Which captions are true of a picture?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import Making, caption_hits, encode, key_of
from hasse.service.questions.requests import CaptionQuery


async def answer(engine: Engine, request: CaptionQuery, stages: Stages) -> Making:
    """Return the captions of a picture, or of a stored image: true ones that say most first."""
    (point,) = await encode(engine, [request.image], stages)
    key = key_of(engine, "caption", request)._replace(specific_first=True)
    (found,) = await engine.searcher.search(key, point[None], stages)
    about = found.facts(engine.checkpoint.name)
    return lambda: {"hits": caption_hits(engine, found), **about}
