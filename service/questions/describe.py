"""Which captions could be written for a picture?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.errors import ServiceError
from hasse.service.questions.answers import Description
from hasse.service.questions.pipeline import Fields, Making, encode
from hasse.service.questions.requests import DescribeQuery

if TYPE_CHECKING:
    from PIL import Image

    from hasse.models.captioning.captioner import Candidates
    from hasse.models.captioning.phrases import ComposedTexts
    from hasse.models.captioning.ranking import GeneratedCaption
    from hasse.models.captioning.writing import Describer


async def answer(engine: Engine, request: DescribeQuery, stages: Stages) -> Making:
    """Generate captions for a picture, or for an image of the collection.

    Texts are drawn in a thread, encoded in the same batches as all captions, and ranked.

    Raises:
        ServiceError: also `no_captioner` where there is none.
    """
    writer = engine.captioner
    if writer is None:
        raise ServiceError(
            "no_captioner",
            f"there is no captioner for the model {engine.checkpoint.name}: train one by "
            f"'hasse study captioner train', and name it by HASSE_CAPTIONER",
        )
    (point,) = await encode(engine, [request.image_id], stages)
    # Each kind of writer ranks what it has drawn itself.
    ranked: Callable[..., list[GeneratedCaption]] = writer.rank
    drawn: Candidates | ComposedTexts = await asyncio.to_thread(
        lambda: writer.draw(point, request.draws)
    )
    points = await engine.encoder.captions(drawn.texts, stages)
    return lambda: _fields(ranked(point, drawn, points), request.k)


def without_index(writer: Describer, picture: Image.Image, request: DescribeQuery) -> Description:
    """Generate captions for a picture, whatever the request names."""
    (point,) = writer.encoder.model.encode_images([picture])
    return Description.model_validate(_fields(writer.describe(point, request.draws), request.k))


def _fields(written: Sequence[GeneratedCaption], k: int) -> Fields:
    return {"captions": [asdict(one) for one in written[:k]]}
