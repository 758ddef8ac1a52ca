"""The questions that only an order can answer: all of these, in common, like this but."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from service import diagram, lattice
from service.bodies import Bodies, media_type
from service.departure import until_client_leaves
from service.errors import invalid_fields
from service.questions import (
    AllOfAnswer,
    AllOfQuery,
    CommonAnswer,
    CommonQuery,
    Diagram,
    Entailment,
    Entailments,
    LikeQuery,
    Pair,
    PairsQuery,
    PictureClaim,
)
from service.routes.context import BodiesHere, EngineHere, problems
from service.schemas import ID_MAXIMUM, Answer, CaptionText, ImageAnswer, schema_of
from service.schemas import Request as Body
from service.timing import Stages

router = APIRouter(tags=["lattice"])

_TIMING = {
    "Server-Timing": {
        "description": "Milliseconds in decode, queue, encode, prefilter, rerank, metadata, total.",
        "schema": {"type": "string"},
    }
}
_REASONS = (
    "malformed",
    "unauthorized",
    "not_found",
    "quota",
    "body_timeout",
    "body_too_large",
    "wrong_media_type",
    "invalid",
    "busy",
    "client_gone",
    "encoding_failed",
    "not_ready",
    "late",
)

_OF_PICTURES = ("too_many_pixels", "not_a_picture", "damaged_picture")


def _ok(description: str, *reasons: str) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"description": description, "headers": _TIMING},
        **problems(*_REASONS, *reasons),
    }


def _takes(model: type[Body], form: type[Body] | None = None) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_of(model)}}
    if form is not None:
        content["multipart/form-data"] = {"schema": schema_of(form)}
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    "/search/all_of",
    summary="Find the images that several things are true of at once",
    response_model=AllOfAnswer,
    responses=_ok("The images, the best first"),
    openapi_extra=_takes(AllOfQuery),
)
async def search_all_of(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Rank images by the part that each of them fits worst.

    An image precedes the join of the parts exactly when it precedes each part. Where the order
    holds only nearly, the worst part tells better than their join which images have all of them.
    Parts that contradict each other are no error: `parts` shows which of them a hit lacks.
    """
    stages = Stages()
    query = await bodies.json(request, AllOfQuery)
    async with until_client_leaves(request):
        answer = await lattice.all_of(engine, query.all_of, query.options(), stages)
    return _answer(answer, stages)


@router.post(
    "/search/common",
    summary="Find the captions that are true of several things at once",
    response_model=CommonAnswer,
    responses=_ok("The captions, the best first"),
    openapi_extra=_takes(CommonQuery),
)
async def search_common(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Rank captions by the part that each of them fits worst: what images and captions share."""
    stages = Stages()
    query = await bodies.json(request, CommonQuery)
    async with until_client_leaves(request):
        answer = await lattice.common(engine, query.common, query.options(), stages)
    return _answer(answer, stages)


@router.post(
    "/search/like",
    summary="Find images like one, with something exchanged",
    response_model=ImageAnswer,
    responses=_ok("The images, the best first"),
    openapi_extra=_takes(LikeQuery),
)
async def search_like(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Rank images by how far each falls short of `like` with `plus` in the place of `minus`."""
    stages = Stages()
    query = await bodies.json(request, LikeQuery)
    async with until_client_leaves(request):
        answer = await lattice.like(
            engine, query.like, query.plus, query.minus, query.options(), stages
        )
    return _answer(answer, stages)


@router.post(
    "/entails",
    summary="Tell whether a caption is true of an image or follows from a caption",
    response_model=Entailment,
    responses=_ok(
        "What the model holds of it", "too_many_pixels", "not_a_picture", "damaged_picture"
    ),
    openapi_extra=_takes(Pair, form=PictureClaim),
)
async def entails(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Tell whether the hypothesis follows from the premise.

    Send JSON for a caption or an image of the collection, a form for a picture of your own.
    """
    stages = Stages()
    pair: tuple[lattice.Part, str]
    if media_type(request) == "multipart/form-data":
        pair = await _claim(request, bodies)
    else:
        asked = await bodies.json(request, Pair)
        pair = (asked.premise, asked.hypothesis)
    async with until_client_leaves(request):
        (answer,) = (await lattice.entails(engine, [pair], stages)).answers
    return _answer(answer, stages)


@router.post(
    "/entails/batch",
    summary="Tell of several pairs whether one follows from the other",
    response_model=Entailments,
    responses=_ok("An answer for each pair"),
    openapi_extra=_takes(PairsQuery),
)
async def entails_batch(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Answer up to 64 pairs together."""
    stages = Stages()
    query = await bodies.json(request, PairsQuery)
    pairs = [(pair.premise, pair.hypothesis) for pair in query.pairs]
    async with until_client_leaves(request):
        answer = await lattice.entails(engine, pairs, stages)
    return _answer(answer, stages)


@router.get(
    "/diagram",
    summary="Draw the Hasse diagram of a caption",
    response_model=Diagram,
    responses=_ok("The diagram"),
)
async def caption_diagram(
    request: Request,
    engine: EngineHere,
    caption: Annotated[CaptionText, Query(description="The caption in the middle.")],
) -> Response:
    """Return the captions right above a caption and right below, found in the collection."""
    stages = Stages()
    async with until_client_leaves(request):
        answer = await diagram.of_caption(engine, caption, stages)
    return _answer(answer, stages)


@router.get(
    "/images/{image_id}/diagram",
    summary="Draw the Hasse diagram of an image",
    response_model=Diagram,
    responses=_ok("The diagram"),
)
async def image_diagram(
    request: Request, engine: EngineHere, image_id: Annotated[int, Path(ge=0, le=ID_MAXIMUM)]
) -> Response:
    """Return the captions that are true of an image, the particular below the general."""
    stages = Stages()
    async with until_client_leaves(request):
        answer = await diagram.of_image(engine, image_id, stages)
    return _answer(answer, stages)


async def _claim(request: Request, bodies: Bodies) -> tuple[bytes, str]:
    picture, texts = await bodies.picture_and_texts(request)
    try:
        claim = PictureClaim.model_validate({**texts, "image": picture})
    except ValidationError as error:
        raise invalid_fields(error) from None
    return claim.image, claim.hypothesis


def _answer(answer: Answer, stages: Stages) -> Response:
    headers = {"Server-Timing": stages.header(), "Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), 200, headers, "application/json")
