"""Searches by a picture: the captions that are true of it, and the images that are like it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hasse.index.search.query import MAX_K
from hasse.models.evaluation.calibration import Calibration
from hasse.service.core.encoding import Point
from hasse.service.core.engine import Engine
from hasse.service.core.searching import Found, depth_of, plain
from hasse.service.core.stages import Stages
from hasse.service.errors import no_image
from hasse.service.picture_schemas import CaptionAnswer, CaptionOptions, SimilarOptions
from hasse.service.schemas import ImageAnswer

_LIKELY, _DEEPER = 256, 8  # captions that are looked for at first, and how many times more then


async def captions(
    engine: Engine, picture: bytes | int, options: CaptionOptions, stages: Stages
) -> CaptionAnswer:
    """Return the captions that are true of a picture, or of a stored image, the best first.

    Raises:
        ServiceError: what the searches of the engine raise; for the id of an image also
            `not_found` and `picture_missing`.
    """
    engine.check_options(options)
    calibration = engine.calibration.image
    async with engine.enter(stages):
        source = picture if isinstance(picture, bytes) else await engine.picture_path(picture)
        pixels = await engine.pictures.pixels(source, stages)
        if options.prefer == "specific" and calibration is not None:
            point = await engine.encoder.encode(pixels, stages)
            fields = await _specific_first(engine, point, options, calibration, stages)
        else:
            found = await engine.searcher.search_encoded(
                "caption", engine.encoder, pixels, options, stages
            )
            hits = caption_hits(found, engine.vocabulary.knows)
            fields = {"hits": hits, **found.facts(engine.name)}
    engine.finish(stages)
    return CaptionAnswer.model_validate(fields)


async def _specific_first(
    engine: Engine, point: Point, options: CaptionOptions, known: Calibration, stages: Stages
) -> dict[str, Any]:
    """Return the fields of an answer that begins with the most specific of the likely captions.

    The search goes so deep that every caption within its threshold is among what it finds: that of
    a text is at most that of the whole calibration.
    """
    from_first = options.model_copy(update={"offset": 0, "k": 1})
    depth = max(_LIKELY, depth_of(options))
    while True:
        found = await engine.search("caption", point, from_first, stages, spare=depth - 1)
        violations = found.answer.violations
        complete = len(violations) < depth or plain(violations[-1]) > known.threshold
        if complete or depth == MAX_K:
            break
        depth = min(_DEEPER * depth, MAX_K)
    knows = engine.vocabulary.knows
    hits = caption_hits(found, knows)
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
    wanted = hits[options.offset : depth_of(options)]
    facts = found.facts(engine.name)
    return {
        "hits": [hit | {"rank": rank} for rank, hit in enumerate(wanted, options.offset + 1)],
        **facts,
        "certified": facts["certified"] and complete,
    }


async def point_of(engine: Engine, picture: bytes | int, stages: Stages) -> Point:
    """Return the point of a picture that was sent, or of a stored image, by its id.

    Raises:
        ServiceError: what encoding a picture raises; `not_found` for the id of no image.
    """
    if isinstance(picture, bytes):
        return await engine.encode_picture(picture, stages)
    stored = await engine.stored_points("image", [picture])
    if picture not in stored:
        raise no_image(picture)
    return stored[picture]


async def similar(
    engine: Engine, picture: bytes | int, options: SimilarOptions, stages: Stages
) -> ImageAnswer:
    """Return the images that are like a picture, or like a stored image, which is no hit itself.

    Violations are those that `hasse.index.search.similar` names; they are not probabilities.

    Raises:
        ServiceError: what the searches of the engine raise; for the id of an image also
            `not_found`.
    """
    engine.check_options(options)
    from_first = options.model_copy(update={"offset": 0, "k": depth_of(options)})
    async with engine.enter(stages):
        point = await point_of(engine, picture, stages)
        found = await engine.search("image", point, from_first, stages, spare=1)
    hits = [hit for hit in found.image_hits() if hit["image_id"] != picture]
    wanted = hits[options.offset : depth_of(options)]
    answer = ImageAnswer.model_validate(
        {
            "hits": [
                hit | {"rank": rank, "probability": None}
                for rank, hit in enumerate(wanted, options.offset + 1)
            ],
            "unknown_words": [],
            **found.facts(engine.name),
        }
    )
    engine.finish(stages)
    return answer


def caption_hits(found: Found, knows: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return the fields of a `CaptionHit` for each caption.

    A caption of which the model `knows` no word has the point of all such captions, which says
    nothing of it.
    """
    hits: list[dict[str, Any]] = []
    for caption_id, violation, probability in found.wanted():
        row = found.captions.get(caption_id)
        if row is not None:
            certain = probability is not None and knows(row.text)
            paths = found.places.shown(row.file_name, row.paths)
            hits.append(
                {
                    "rank": found.offset + len(hits) + 1,
                    "caption_id": row.id,
                    "image_id": row.image_id,
                    "path": paths[0],
                    "paths": paths,
                    "caption": row.text,
                    "written_by": row.written_by,
                    "violation": plain(violation),
                    "probability": probability if certain else None,
                    "same": [
                        {"caption_id": other, "image_id": found.captions[other].image_id}
                        for other in found.answer.same.get(caption_id, ())
                        if other in found.captions
                    ],
                }
            )
    return hits
