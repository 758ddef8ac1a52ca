"""Which images is this caption true of, which captions are true of this, what could be said?"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.core import by_picture, describing
from hasse.service.core.stages import Stages, answered
from hasse.service.picture_schemas import (
    CaptionAnswer,
    DescribeForm,
    DescribeQuery,
    Description,
    PictureQuery,
    SimilarQuery,
)
from hasse.service.routes.documentation import OF_PICTURES, REASONS, takes, timed
from hasse.service.schemas import ImageAnswer, ImageAnswers, ImageQuery, ImagesQuery
from hasse.service.services import SearchServices

router = APIRouter(tags=["search"])


@router.post(
    "/search/images",
    summary="Find the images a caption is true of, or that are like a picture",
    response_model=ImageAnswer,
    responses=timed("The images, the best first", *REASONS, *OF_PICTURES),
    openapi_extra=takes(json=ImageQuery, form=SimilarQuery),
)
async def search_images(request: Request, services: SearchServices) -> Response:
    """Rank the images of the collection by how far each falls short of the caption.

    Send a form for a picture: then `violation` is the squared distance from it, or, with `similar`,
    what a more specific image lacks of it, or what a more general image has beside it.
    """
    stages = Stages()
    query = await services.bodies.json_or_form(request, ImageQuery, SimilarQuery)
    if isinstance(query, SimilarQuery):
        answer = await by_picture.similar(services.engine, query.image, query, stages)
        return answered(answer, stages)
    fields = await services.engine.image_fields(query.caption, query, stages)
    return answered(fields, stages)


@router.post(
    "/search/images/batch",
    summary="Find the images that each of several captions is true of",
    response_model=ImageAnswers,
    responses=timed("An answer for each caption", *REASONS),
    openapi_extra=takes(json=ImagesQuery),
)
async def search_images_batch(request: Request, services: SearchServices) -> Response:
    """Answer up to 32 captions together: they are encoded and searched as one batch."""
    stages = Stages()
    query = await services.bodies.json(request, ImagesQuery)
    answers = await services.engine.images_by_captions(query.captions, query, stages=stages)
    return answered(answers, stages)


@router.post(
    "/search/captions",
    summary="Find the captions that are true of a picture",
    response_model=CaptionAnswer,
    responses=timed("The captions, the best first", *REASONS, *OF_PICTURES),
    openapi_extra=takes(form=PictureQuery),
)
async def search_captions(request: Request, services: SearchServices) -> Response:
    """Rank the captions of the collection by how far the picture falls short of each.

    Its first bytes tell the format of the picture, not its name or content type.
    """
    stages = Stages()
    query = (await services.bodies.form(request)).as_model(PictureQuery)
    answer = await by_picture.captions(services.engine, query.image, query, stages)
    return answered(answer, stages)


@router.post(
    "/describe",
    summary="Write captions for a picture",
    response_model=Description,
    responses=timed(
        "Captions that a model wrote, the best first",
        *REASONS,
        "not_found",
        "no_captioner",
        *OF_PICTURES,
    ),
    openapi_extra=takes(json=DescribeQuery, form=DescribeForm),
)
async def describe(request: Request, services: SearchServices) -> Response:
    """Write captions for a picture of yours, sent as a form, or for an image of the collection.

    Captions that are likely to be true come first, those that say what somebody or something does
    before others, and among them those that say most.
    """
    stages = Stages()
    query = await services.bodies.json_or_form(request, DescribeQuery, DescribeForm)
    picture = query.image if isinstance(query, DescribeForm) else query.image_id
    return answered(await describing.describe(services.engine, picture, query, stages), stages)
