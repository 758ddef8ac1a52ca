"""The page that adds a picture: offered only where somebody may write."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.core.write_queue import Upload
from service.errors import ServiceError
from service.http.bodies import validated
from service.page.problems import Trouble, Visit, problem, trouble
from service.page.responses import Screen, respond
from service.page.views import Query
from service.schemas import AddedImage, UploadFields
from service.services import ServicesHere

router = APIRouter(route_class=Visit)

_ADDRESS = "/page/add"
_CLOSED = ServiceError("forbidden", "whoever runs this service lets nobody add pictures")


@router.get(_ADDRESS)
async def form(request: Request, services: ServicesHere) -> Response:
    """Show the form."""
    if not services.settings.takes_writes:
        return problem(request, Query(), _CLOSED)
    return respond(request, Query(), _screen())


@router.post(_ADDRESS)
async def add(request: Request, services: ServicesHere) -> Response:
    """Add the picture of the form, with the key of the form, and say what became of it.

    The key is no password that a browser sends by itself, so another site cannot use it.
    """
    if not services.settings.takes_writes:
        return problem(request, Query(), _CLOSED)
    query, typed = Query(), ""
    try:
        engine = services.engine
        sent = await services.bodies.form(request)
        picture, texts = sent.picture(), dict(sent.texts)
        typed, key = texts.get("captions", ""), texts.get("key", "").strip()
        if services.settings.writes_need_key and not key:
            raise ServiceError("unauthorized", "type the key that lets you add pictures here")
        request.scope["hasse.key"] = services.access.admit_key(key, "write") or None
        captions = [line.strip() for line in typed.splitlines() if line.strip()]
        fields = validated(UploadFields, {"caption": captions})
        upload = Upload(picture.content, picture.file_name, fields.caption)
        added = await engine.add(upload)
    except ServiceError as error:
        request.scope["hasse.reason"] = error.reason
        found = trouble(error, query, services.settings)
        if error.reason == "invalid":
            found = replace(found, title="That cannot be added")
        screen = _screen(f"{found.title}. {found.detail}", typed, found)
        screen = replace(screen, status=error.kind.status, retry_after=error.retry_after)
        return respond(request, query, screen)
    spoken = "The picture was added." if added.created else "The picture was here already."
    link = query.about(str(added.image_id)).url()
    return respond(request, query, _screen(spoken, image=added, link=link))


def _screen(
    spoken: str = "",
    typed: str = "",
    fault: Trouble | None = None,
    *,
    image: AddedImage | None = None,
    link: str = "",
) -> Screen:
    context = {"typed": typed, "fault": fault, "image": image, "link": link}
    return Screen(
        "add.html",
        title="Add a picture · Hasse",
        spoken=spoken,
        context=context,
        url=_ADDRESS,
    )
