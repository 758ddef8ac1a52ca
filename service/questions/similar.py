"""Which images are like a picture, more specific than it, or more general?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import Fields, encode, search_without
from hasse.service.questions.requests import SimilarQuery


async def answer(engine: Engine, request: SimilarQuery, stages: Stages) -> Fields:
    """Return the images that are like a picture, or like a stored image, which is left out.

    Violations are those of `hasse.index.search.similar`.
    """
    (point,) = await encode(engine, [request.image], stages)
    fields = await search_without(engine, [request.image], point, request, stages)
    return fields | {"unknown_words": [], "did_you_mean": None}
