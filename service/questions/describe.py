"""Which captions could be written for a picture?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from hasse.service.core.engine import Engine
from hasse.service.errors import ServiceError
from hasse.service.questions.answers import Description
from hasse.service.questions.pipeline import AnswerBuilder, Fields, encode
from hasse.service.questions.requests import DescribeQuery
from hasse.service.telemetry.stages import Stages

if TYPE_CHECKING:
    from PIL import Image

    from hasse.models.captioning.captioner import Candidates
    from hasse.models.captioning.phrases import ComposedTexts
    from hasse.models.captioning.ranking import GeneratedCaption
    from hasse.models.captioning.writing import Describer


async def answer(engine: Engine, request: DescribeQuery, stages: Stages) -> AnswerBuilder:
    """Generate captions for a picture, or for an image of the collection.

    Texts are generated in a thread, encoded in the same batches as all captions, and ranked.

    Raises:
        ServiceError: also `no_captioner` if the model has none.
    """
    captioner = engine.captioner
    if captioner is None:
        raise ServiceError(
            "no_captioner",
            f"there is no captioner for the model {engine.checkpoint.name}: train one by "
            f"'hasse study captioner train', and name it by HASSE_CAPTIONER",
        )
    (point,) = await encode(engine, [request.image_id], stages)
    # Each kind of captioner ranks its own texts.
    rank: Callable[..., list[GeneratedCaption]] = captioner.rank
    drawn: Candidates | ComposedTexts = await asyncio.to_thread(
        lambda: captioner.draw(point, request.draws)
    )
    points = await engine.encoder.captions(drawn.texts, stages)
    return lambda: _fields(rank(point, drawn, points), request.k)


def answer_without_index(
    captioner: Describer, picture: Image.Image, request: DescribeQuery
) -> Description:
    """Generate captions for `picture`; the image of the request is ignored."""
    (point,) = captioner.encoder.model.encode_images([picture])
    return Description.model_validate(_fields(captioner.describe(point, request.draws), request.k))


def _fields(captions: Sequence[GeneratedCaption], k: int) -> Fields:
    return {"captions": [asdict(caption) for caption in captions[:k]]}
