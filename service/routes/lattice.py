"""The questions that only an order can answer: all of these, in common, like this but."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
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
from service.routes.context import BodiesHere, EngineHere, Id
from service.routes.operation import answered, takes, timed
from service.schemas import CaptionText, ImageAnswer
from service.timing import Stages

router = APIRouter(tags=["lattice"])

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


@router.post(
    "/search/all_of",
    summary="Find the images that several things are true of at once",
    response_model=AllOfAnswer,
    responses=timed("The images, the best first", *_REASONS),
    openapi_extra=takes(json=AllOfQuery),
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
    return answered(answer, stages)


@router.post(
    "/search/common",
    summary="Find the captions that are true of several things at once",
    response_model=CommonAnswer,
    responses=timed("The captions, the best first", *_REASONS),
    openapi_extra=takes(json=CommonQuery),
)
async def search_common(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Rank captions by the part that each of them fits worst: what images and captions share."""
    stages = Stages()
    query = await bodies.json(request, CommonQuery)
    async with until_client_leaves(request):
        answer = await lattice.common(engine, query.common, query.options(), stages)
    return answered(answer, stages)


@router.post(
    "/search/like",
    summary="Find images like one, with something exchanged",
    response_model=ImageAnswer,
    responses=timed("The images, the best first", *_REASONS),
    openapi_extra=takes(json=LikeQuery),
)
async def search_like(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Rank images by how far each falls short of `like` with `plus` in the place of `minus`."""
    stages = Stages()
    query = await bodies.json(request, LikeQuery)
    async with until_client_leaves(request):
        answer = await lattice.like(
            engine, query.like, query.plus, query.minus, query.options(), stages
        )
    return answered(answer, stages)


@router.post(
    "/entails",
    summary="Tell whether a caption is true of an image or follows from a caption",
    response_model=Entailment,
    responses=timed(
        "What the model holds of it",
        *_REASONS,
        "too_many_pixels",
        "not_a_picture",
        "damaged_picture",
    ),
    openapi_extra=takes(json=Pair, form=PictureClaim),
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
    return answered(answer, stages)


@router.post(
    "/entails/batch",
    summary="Tell of several pairs whether one follows from the other",
    response_model=Entailments,
    responses=timed("An answer for each pair", *_REASONS),
    openapi_extra=takes(json=PairsQuery),
)
async def entails_batch(request: Request, engine: EngineHere, bodies: BodiesHere) -> Response:
    """Answer up to 64 pairs together."""
    stages = Stages()
    query = await bodies.json(request, PairsQuery)
    pairs = [(pair.premise, pair.hypothesis) for pair in query.pairs]
    async with until_client_leaves(request):
        answer = await lattice.entails(engine, pairs, stages)
    return answered(answer, stages)


@router.get(
    "/diagram",
    summary="Draw the Hasse diagram of a caption",
    response_model=Diagram,
    responses=timed("The diagram", *_REASONS),
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
    return answered(answer, stages)


@router.get(
    "/images/{image_id}/diagram",
    summary="Draw the Hasse diagram of an image",
    response_model=Diagram,
    responses=timed("The diagram", *_REASONS),
)
async def image_diagram(request: Request, engine: EngineHere, image_id: Id) -> Response:
    """Return the captions that are true of an image, the particular below the general."""
    stages = Stages()
    async with until_client_leaves(request):
        answer = await diagram.of_image(engine, image_id, stages)
    return answered(answer, stages)


async def _claim(request: Request, bodies: Bodies) -> tuple[bytes, str]:
    picture, texts = await bodies.picture_and_texts(request)
    try:
        claim = PictureClaim.model_validate({**texts, "image": picture})
    except ValidationError as error:
        raise invalid_fields(error) from None
    return claim.image, claim.hypothesis
