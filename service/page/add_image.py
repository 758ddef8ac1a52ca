"""The page that adds a picture, for services that accept writes."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.errors import ServiceError, validated
from hasse.service.http.services import ServicesHere
from hasse.service.page.errors import PageRoute, message_for
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import View, render
from hasse.service.page.writers import admit_writer, require_writes
from hasse.service.schemas import UploadFields

router = APIRouter(route_class=PageRoute)

_URL = "/page/add"
EMPTY_FORM = {"typed": "", "message": None, "image": None}  # variables of its template
_FORM = View("add_image.html", title="Add a picture · Hasse", context=EMPTY_FORM)


@router.get(_URL)
async def form(request: Request, services: ServicesHere) -> Response:
    """Show the form."""
    require_writes(services)
    return await render(request, PageQuery(), _FORM)


@router.post(_URL)
async def add(request: Request, services: ServicesHere) -> Response:
    """Add the picture of the form."""
    services.hosts.require_same_origin(request.headers)
    require_writes(services)
    typed = ""
    try:
        engine = services.engine
        body = await services.bodies.form(request)
        picture, texts = body.picture(), dict(body.texts)
        typed = texts.get("captions", "")
        admit_writer(request, services, texts.get("key", ""))
        captions = [line.strip() for line in typed.splitlines() if line.strip()]
        fields = validated(UploadFields, {"caption": captions})
        image = await engine.writing.add(picture.content, picture.file_name, fields)
    except ServiceError as error:
        message = message_for(error, services.settings)
        if error.reason == "invalid":
            message = replace(message, title="That cannot be added")
        view = replace(
            _FORM,
            announcement=f"{message.title}. {message.detail}",
            context={"typed": typed, "message": message, "image": None},
            error=error,
        )
        return await render(request, PageQuery(), view)
    announcement = "The picture was added." if image.created else "The picture was here already."
    context = {"typed": "", "message": None, "image": image}
    return await render(
        request, PageQuery(), replace(_FORM, announcement=announcement, context=context)
    )
