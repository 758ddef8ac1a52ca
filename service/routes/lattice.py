"""The questions that only an order can answer: all of these, in common, like this but."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from hasse.service.core import diagram, lattice
from hasse.service.core.stages import Stages, answered
from hasse.service.lattice_schemas import (
    AllOfAnswer,
    AllOfForm,
    AllOfQuery,
    CommonAnswer,
    CommonForm,
    CommonQuery,
    Diagram,
    Entailment,
    Entailments,
    LikeForm,
    LikeQuery,
    Pair,
    PairsQuery,
    PictureClaim,
)
from hasse.service.routes.documentation import OF_PICTURES, REASONS, Id, takes, timed
from hasse.service.schemas import CaptionText, ImageAnswer
from hasse.service.services import SearchServices

router = APIRouter(tags=["lattice"])


@router.post(
    "/search/all_of",
    summary="Find the images that several things are true of at once",
    response_model=AllOfAnswer,
    responses=timed("The images, the best first", *REASONS, "not_found", *OF_PICTURES),
    openapi_extra=takes(json=AllOfQuery, form=AllOfForm),
)
async def search_all_of(request: Request, services: SearchServices) -> Response:
    """Rank images by the part that each of them fits worst.

    An image precedes the join of the parts exactly when it precedes each part. Where the order
    holds only nearly, the worst part tells better than their join which images have all of them.
    Parts that contradict each other are no error: `parts` shows which of them a hit lacks. Send a
    form for a picture of your own; it is the first part.
    """
    stages = Stages()
    query = await services.bodies.json_or_form(request, AllOfQuery, AllOfForm)
    answer = await lattice.all_of(services.engine, query.parts(), query, stages)
    return answered(answer, stages)


@router.post(
    "/search/common",
    summary="Find the captions that are true of several things at once",
    response_model=CommonAnswer,
    responses=timed("The captions, the best first", *REASONS, "not_found", *OF_PICTURES),
    openapi_extra=takes(json=CommonQuery, form=CommonForm),
)
async def search_common(request: Request, services: SearchServices) -> Response:
    """Rank captions by the part that each of them fits worst: what images and captions share.

    Send a form for a picture of your own; it is the first part.
    """
    stages = Stages()
    query = await services.bodies.json_or_form(request, CommonQuery, CommonForm)
    answer = await lattice.common(services.engine, query.parts(), query, stages)
    return answered(answer, stages)


@router.post(
    "/search/like",
    summary="Find images like one, with something exchanged",
    response_model=ImageAnswer,
    responses=timed("The images, the best first", *REASONS, "not_found", *OF_PICTURES),
    openapi_extra=takes(json=LikeQuery, form=LikeForm),
)
async def search_like(request: Request, services: SearchServices) -> Response:
    """Rank images by how far each falls short of `like` with `plus` in the place of `minus`.

    A single word is exchanged in the shortest captions of the collection that say it and that are
    true of `like`: "red" for "blue" is "a red ball" for "a blue ball", where there is one. Send a
    form to start from a picture of your own.
    """
    stages = Stages()
    query = await services.bodies.json_or_form(request, LikeQuery, LikeForm)
    answer = await lattice.like(
        services.engine, query.start, query.plus, query.minus, query, stages
    )
    return answered(answer, stages)


@router.post(
    "/entails",
    summary="Tell whether a caption is true of an image or follows from a caption",
    response_model=Entailment,
    responses=timed("What the model holds of it", *REASONS, "not_found", *OF_PICTURES),
    openapi_extra=takes(json=Pair, form=PictureClaim),
)
async def entails(request: Request, services: SearchServices) -> Response:
    """Tell whether the hypothesis follows from the premise.

    Send JSON for a caption or an image of the collection, a form for a picture of your own.
    """
    stages = Stages()
    asked = await services.bodies.json_or_form(request, Pair, PictureClaim)
    answer = await lattice.entails(services.engine, *asked.pair(), stages)
    return answered(answer, stages)


@router.post(
    "/entails/batch",
    summary="Tell of several pairs whether one follows from the other",
    response_model=Entailments,
    responses=timed("An answer for each pair", *REASONS, "not_found"),
    openapi_extra=takes(json=PairsQuery),
)
async def entails_batch(request: Request, services: SearchServices) -> Response:
    """Answer up to 64 pairs together."""
    stages = Stages()
    query = await services.bodies.json(request, PairsQuery)
    answer = await lattice.each_entails(
        services.engine, [pair.pair() for pair in query.pairs], stages
    )
    return answered(answer, stages)


@router.get(
    "/diagram",
    summary="Draw the Hasse diagram of a caption",
    response_model=Diagram,
    responses=timed("The diagram", *REASONS, "not_found"),
)
async def caption_diagram(
    services: SearchServices,
    caption: Annotated[CaptionText, Query(description="The caption in the middle.")],
) -> Response:
    """Return the captions right above a caption and right below, found in the collection."""
    stages = Stages()
    answer = await diagram.of_caption(services.engine, caption, stages)
    return answered(answer, stages)


@router.get(
    "/images/{image_id}/diagram",
    summary="Draw the Hasse diagram of an image",
    response_model=Diagram,
    responses=timed("The diagram", *REASONS, "not_found"),
)
async def image_diagram(services: SearchServices, image_id: Id) -> Response:
    """Return the captions that are true of an image, the particular below the general."""
    stages = Stages()
    answer = await diagram.of_image(services.engine, image_id, stages)
    return answered(answer, stages)
