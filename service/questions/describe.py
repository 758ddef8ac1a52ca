"""Which captions could be written for a picture?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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

    from hasse.models.captioning.phrases import GeneratedCaption, PhraseWriter


async def answer(engine: Engine, request: DescribeQuery, stages: Stages) -> AnswerBuilder:
    """Generate captions for a picture, or for an image of the collection.

    Texts are composed in a thread and encoded in the same batches as all captions.

    Raises:
        ServiceError: also `no_captioner` if the model has none.
    """
    captioner = engine.captioner
    if captioner is None:
        raise ServiceError(
            "no_captioner",
            f"the model {engine.checkpoint.name} has no phrases for captions: make them by "
            f"'hasse study photographs phrases', or use the model photographs",
        )
    (point,) = await encode(engine, [request.image_id], stages)
    texts = await asyncio.to_thread(captioner.compose, point)
    points = await engine.encoder.captions(texts, stages)
    return lambda: _fields(captioner.choose(point, texts, points), request.k)


def answer_without_index(
    captioner: PhraseWriter, picture: Image.Image, request: DescribeQuery
) -> Description:
    """Generate captions for `picture`; the image of the request is ignored."""
    (point,) = captioner.encoder.model.encode_images([picture])
    return Description.model_validate(_fields(captioner.describe(point), request.k))


def _fields(captions: Sequence[GeneratedCaption], k: int) -> Fields:
    return {"captions": [asdict(caption) for caption in captions[:k]]}
