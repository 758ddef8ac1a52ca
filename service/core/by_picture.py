"""Searches by a picture: the captions that are true of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.core.engine import Engine
from service.core.searching import Found, plain
from service.core.stages import Stages
from service.schemas import CaptionAnswer, SearchOptions


async def captions(
    engine: Engine, picture: bytes | int, options: SearchOptions, stages: Stages
) -> CaptionAnswer:
    """Return the captions that are true of a picture, or of a stored image, the best first.

    Raises:
        ServiceError: what the searches of the engine raise; for the id of an image also
            `not_found` and `picture_missing`.
    """
    engine.check_options(options)
    async with engine.enter(stages):
        source = picture if isinstance(picture, bytes) else await engine.picture_path(picture)
        pixels = await engine.pictures.pixels(source, stages)
        found = await engine.searcher.search_encoded(
            "caption", engine.encoder, pixels, options, stages
        )
    hits = caption_hits(found, engine.vocabulary.knows)
    engine.finish(stages)
    return CaptionAnswer.model_validate({"hits": hits, **found.facts(engine.name)})


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
            paths = found.places.shown(row)
            hits.append(
                {
                    "rank": found.offset + len(hits) + 1,
                    "caption_id": row.id,
                    "image_id": row.image_id,
                    "path": paths[0],
                    "paths": paths,
                    "caption": row.text,
                    "violation": plain(violation),
                    "probability": probability if certain else None,
                }
            )
    return hits
