"""Captions written for a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from PIL import Image

from hasse.models.captioning.ranking import WrittenCaption
from hasse.models.captioning.writing import Writer
from hasse.service.core.by_picture import point_of
from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.errors import ServiceError
from hasse.service.picture_schemas import DescribeOptions, Description


async def describe(
    engine: Engine, picture: bytes | int, options: DescribeOptions, stages: Stages
) -> Description:
    """Write captions for a picture, or for an image of the collection.

    Texts are drawn in a thread, encoded in the batches that all captions wait for, and ranked.

    Raises:
        ServiceError: `no_captioner` where there is none; `not_found` for the id of an image that
            is not there; and what encoding a picture and captions raises.
    """
    writer = engine.writer
    if writer is None:
        raise ServiceError(
            "no_captioner",
            f"there is no captioner for the model {engine.name}: train one by "
            f"'hasse study captioner train', and name it by HASSE_CAPTIONER",
        )
    async with engine.enter(stages):
        point = await point_of(engine, picture, stages)
        candidates = await asyncio.to_thread(writer.draw, point, options.draws)
        points = await engine.encode_captions(candidates.texts, stages)
        written = await asyncio.to_thread(writer.ranked, point, candidates, points)
    engine.finish(stages)
    return _description(written, options)


def describe_without_index(
    writer: Writer, picture: Image.Image, options: DescribeOptions
) -> Description:
    """Write captions for a picture as `describe` does."""
    point = writer.encoder.model.encode_images([picture])[0]
    return _description(writer.describe(point, options.draws), options)


def _description(written: Sequence[WrittenCaption], options: DescribeOptions) -> Description:
    return Description.model_validate({"captions": [asdict(one) for one in written[: options.k]]})
