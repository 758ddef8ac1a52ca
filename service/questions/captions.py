"""Which captions are true of a picture?"""

from __future__ import annotations

import math
from pathlib import Path

from hasse.index.search.query import MAX_K
from hasse.index.types import Points
from hasse.models.evaluation.calibration import Calibration
from hasse.service.core import records
from hasse.service.core.answering import beside_loop
from hasse.service.core.engine import Engine
from hasse.service.core.searching import plain
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import (
    Fields,
    caption_hits,
    depth_of,
    finish,
    key_of,
    ranked,
    search,
)
from hasse.service.questions.requests import CaptionQuery

_LIKELY, _DEEPER = 256, 8  # captions of the first search, and the factor of each further one


async def answer(engine: Engine, request: CaptionQuery, stages: Stages) -> Fields:
    """Return the captions that are true of a picture, or of a stored image, the best first.

    Raises:
        ServiceError: for the id of an image also `not_found` and `picture_missing`.
    """
    sent = request.image
    source: bytes | Path
    if isinstance(sent, bytes):
        source = sent
    else:
        source, _ = await records.picture_file(engine, sent)
    pixels = await engine.pictures.pixels(source, stages)
    calibration = engine.calibration.image
    if request.prefer == "specific" and calibration is not None:
        point = await engine.encoder.encode(pixels, stages)
        return await _specific_first(engine, point, request, calibration, stages)
    key = key_of(engine, "caption", request)
    found = await engine.searcher.search_encoded(key, engine.encoder, pixels, stages)
    about = found.facts(engine.checkpoint.name)
    return await finish(request, lambda: {"hits": caption_hits(engine, found), **about})


async def _specific_first(
    engine: Engine, point: Points, request: CaptionQuery, known: Calibration, stages: Stages
) -> Fields:
    """Return an answer that begins with the most specific of the likely captions.

    The search is deep enough to find every caption within its threshold: the threshold of a text
    is at most the largest of the calibration.
    """
    from_first = request.model_copy(update={"offset": 0, "k": 1})
    depth = max(_LIKELY, depth_of(request))
    while True:
        found = await search(engine, "caption", point[None], from_first, stages, spare=depth - 1)
        violations = found.ranking.violations
        complete = len(violations) < depth or plain(violations[-1]) > known.largest_threshold
        if complete or depth == MAX_K:
            break
        depth = min(_DEEPER * depth, MAX_K)
    knows = engine.vocabulary.knows
    hits = await beside_loop(lambda: caption_hits(engine, found))
    texts = {
        hit["caption_id"]: hit["caption"]
        for hit in hits
        if hit["violation"] <= known.of(hit["caption"]).threshold and knows(hit["caption"])
    }
    specific = await engine.in_catalog(
        lambda: engine.specificity.of(texts, lambda ids: engine.index.points("caption", ids))
    )
    # Sorting keeps the order by violation and id among those that are as specific.
    hits.sort(key=lambda hit: -specific.get(hit["caption_id"], -math.inf))
    about = found.facts(engine.checkpoint.name)
    certified = about["certified"] and complete
    return {"hits": ranked(hits, request), **about, "certified": certified}
