"""Embeddings of texts and pictures, for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.core.encoding import Point, check_caption
from hasse.service.core.engine import Engine
from hasse.service.core.searching import plain
from hasse.service.core.stages import Stages, answered
from hasse.service.embedding_schemas import Embedding, Embeddings, PictureToEmbed, TextsToEmbed
from hasse.service.routes.documentation import OF_PICTURES, REASONS, takes, timed
from hasse.service.services import SearchServices

router = APIRouter(tags=["search"])


@router.post(
    "/embed",
    summary="Return the embeddings of texts, or of a picture",
    response_model=Embeddings,
    responses=timed("The embeddings", *REASONS, *OF_PICTURES),
    openapi_extra=takes(json=TextsToEmbed, form=PictureToEmbed),
)
async def embed(request: Request, services: SearchServices) -> Response:
    """Encode up to 256 texts together, or a picture that is sent as a form.

    A text without one word that the model knows has `known` false: its embedding says nothing.
    """
    stages = Stages()
    asked = await services.bodies.json_or_form(request, TextsToEmbed, PictureToEmbed)
    engine = services.engine
    if isinstance(asked, PictureToEmbed):
        async with engine.enter(stages):
            point = await engine.encode_picture(asked.image, stages)
        found = [_embedding(point)]
    else:
        found = await _of_texts(engine, asked.texts, stages)
    engine.finish(stages)
    answer = Embeddings(
        embeddings=found,
        score=engine.score,
        dimension=len(found[0].embedding),
        model=engine.name,
        fingerprint=engine.checkpoint.fingerprint,
    )
    return answered(answer, stages)


async def _of_texts(engine: Engine, texts: Sequence[str], stages: Stages) -> list[Embedding]:
    for at, text in enumerate(texts):
        check_caption(text, engine.settings, f"texts.{at}")
    distinct = list(dict.fromkeys(texts))
    async with engine.enter(stages):
        points = await engine.encode_captions(distinct, stages)
    words = engine.vocabulary
    found = {
        text: _embedding(point, words.knows(text), words.unknown(text))
        for text, point in zip(distinct, points, strict=True)
    }
    return [found[text] for text in texts]


def _embedding(point: Point, known: bool = True, unknown: Sequence[str] = ()) -> Embedding:
    return Embedding(
        embedding=[plain(coordinate) for coordinate in point],
        known=known,
        unknown_words=list(unknown),
    )
