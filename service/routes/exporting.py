"""Routes that send the hits of a search as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from hasse.service.errors import invalid
from hasse.service.http.openapi import QUESTION_REASONS, problems, takes
from hasse.service.http.services import SearchServices, Services
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.pipeline import run
from hasse.service.questions.table import SEARCH_IMAGES
from hasse.service.routes.export_formats import (
    MEDIA_TYPES,
    Fields,
    Format,
    Originals,
    lines,
    rows_of,
)
from hasse.service.telemetry.stages import Stages

router = APIRouter(tags=["search"])

_TEXT = {"schema": {"type": "string"}}
_CONTENT = {
    kind: {"schema": {"type": "string", "format": "binary"}} if name == "zip" else _TEXT
    for name, kind in MEDIA_TYPES.items()
}


@router.post(
    "/search/images/export",
    summary="Send the hits of a search as a file",
    response_class=Response,
    responses={
        200: {"description": "The file", "content": _CONTENT},
        **problems(*QUESTION_REASONS),
    },
    openapi_extra=takes(SEARCH_IMAGES.request),
)
async def search_images_export(
    request: Request,
    services: SearchServices,
    format: Annotated[Format, Query(description="zip: the pictures themselves.")],  # noqa: A002
    nearest: Annotated[
        int, Query(ge=0, le=1000, description="Number of hits besides those that show or say it.")
    ] = 0,
) -> Response:
    """Answer a search by a caption with CSV, JSON lines, or a ZIP of the original pictures."""
    query = await services.bodies.json(request, SEARCH_IMAGES.request)
    engine = services.engine
    handler = HANDLERS[SEARCH_IMAGES]
    hits = await run(engine, handler, query, Stages(), lambda fields: fields["hits"])
    return await as_file(request, services, rows_of(hits, nearest), format)


async def as_file(
    request: Request, services: Services, rows: Sequence[Fields], format_: Format
) -> Response:
    """Return rows about images as a file, or their originals in a ZIP."""
    headers = {
        "Content-Disposition": f'attachment; filename="hits.{format_}"',
        "Cache-Control": "no-store",
    }
    media_type, engine = MEDIA_TYPES[format_], services.engine
    if format_ != "zip":
        content = b"".join(lines(rows, format_))
        return Response(content, 200, headers, media_type)
    originals = await engine.in_catalog(lambda: Originals(engine.index, rows))
    limit = services.settings.export_bytes
    if originals.size > limit:
        raise invalid("k", f"the originals take {originals.size:,} bytes, of {limit:,} at most")
    request.scope["hasse.in_pieces"] = True  # the answer is not in memory as a whole
    return StreamingResponse(originals.zip_pieces(), 200, headers, media_type)
