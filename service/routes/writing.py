"""Routes that add, annotate and remove images. A write is durable before its answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.addresses import address
from hasse.service.http.openapi import BODY_REASONS, WRITE_REASONS, Id, problems, takes
from hasse.service.http.services import ServicesHere
from hasse.service.schemas import AddedImage, AnnotationFields, UploadForm

router = APIRouter(tags=["writing"])

_LOCATION = {"Location": {"description": "Its address.", "schema": {"type": "string"}}}


@router.post(
    "/images",
    summary="Add a picture with its captions",
    status_code=201,
    response_model=AddedImage,
    responses={
        200: {
            "model": AddedImage,
            "description": "The picture existed already; captions that it lacked were added",
            "headers": _LOCATION,
        },
        201: {"description": "The image was added", "headers": _LOCATION},
        **problems(
            *(*BODY_REASONS, *WRITE_REASONS, "conflict"),
            *("too_many_pixels", "not_a_picture", "damaged_picture"),
        ),
    },
    openapi_extra=takes(form=UploadForm),
)
async def add_image(request: Request, services: ServicesHere) -> Response:
    """Store the picture, encode it and its captions, and make them searchable.

    A picture is identified by its bytes. If it is sent again, the answer is the existing image, and
    only captions that this image lacks are added. So a request without an answer can be repeated.
    """
    form = await services.bodies.form(request)
    fields, file_name = form.as_model(UploadForm, "image"), form.picture().file_name
    added = await services.engine.writing.add(fields.image, file_name, fields)
    return Response(
        added.model_dump_json(),
        201 if added.created else 200,
        {"Location": address(f"/images/{added.image_id}"), "Cache-Control": "no-store"},
        "application/json",
    )


_ANNOTATING: dict[str, Any] = {
    "status_code": 204,
    "responses": {
        204: {"description": "It is done, and visible to the next search"},
        **problems(*BODY_REASONS, *WRITE_REASONS, "not_found"),
    },
    "openapi_extra": takes(AnnotationFields),
}


@router.post("/annotations", summary="Add captions and keywords to images", **_ANNOTATING)
async def annotate(request: Request, services: ServicesHere) -> Response:
    """Add captions and keywords that images lack. They stay when the file of an image changes."""
    fields = await services.bodies.json(request, AnnotationFields)
    await services.engine.writing.annotate(fields)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


@router.post(
    "/annotations/remove", summary="Remove captions and keywords from images", **_ANNOTATING
)
async def unannotate(request: Request, services: ServicesHere) -> Response:
    """Remove human captions, and keywords that were added by `/annotations`, from images.

    Keywords in files stay, because Hasse does not change files.
    """
    fields = await services.bodies.json(request, AnnotationFields)
    await services.engine.writing.unannotate(fields)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


@router.delete(
    "/images/{image_id}",
    summary="Remove an image and its captions",
    status_code=204,
    responses={
        204: {"description": "The image is removed, and its picture too if it came by POST"},
        **problems("not_found", "invalid", *WRITE_REASONS),
    },
)
async def remove_image(image_id: Id, services: ServicesHere) -> Response:
    """Remove an image and its captions. The next search does not find them."""
    await services.engine.writing.remove(image_id)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
