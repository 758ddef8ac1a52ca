"""Actions on pictures of the page: captions and keywords are changed, originals are sent."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from hasse.service.errors import invalid, validated
from hasse.service.http.services import ServicesHere
from hasse.service.page.errors import PageRoute
from hasse.service.page.query import PageQuery
from hasse.service.page.writers import written_fields
from hasse.service.routes.export_formats import images_of
from hasse.service.routes.exporting import as_file
from hasse.service.schemas import ANNOTATED_MAXIMUM, AnnotationFields, image_id_of

router = APIRouter(route_class=PageRoute)

_FIELDS = {"caption": "captions", "keyword": "keywords"}


@router.post("/page/annotate")
async def annotate(request: Request, services: ServicesHere) -> Response:
    """Add or remove a caption or keyword of a picture, and show the picture."""
    fields = await written_fields(request, services)
    query = PageQuery.read(fields, services.settings).about(fields.get("image", ""))
    field = _FIELDS.get(fields.get("kind", ""))
    if query.image_id is None or field is None:
        raise invalid(
            "kind", "say of which picture it is, and whether it is a caption or a keyword"
        )
    values = {"image_ids": [query.image_id], field: [fields.get("text", "")]}
    annotation = validated(AnnotationFields, values)
    writing = services.engine.writing
    remove = fields.get("do") == "remove"
    await (writing.unannotate(annotation) if remove else writing.annotate(annotation))
    return RedirectResponse(query.image_url(query.image_id), 303)


@router.post("/page/export")
async def export(request: Request, services: ServicesHere) -> Response:
    """Send the originals of the chosen pictures as a ZIP."""
    form = await services.bodies.form(request)
    parsed_ids = [image_id_of(text) for name, text in form.texts if name == "image"]
    image_ids = list(dict.fromkeys(id_ for id_ in parsed_ids if id_ is not None))
    if not 0 < len(image_ids) <= ANNOTATED_MAXIMUM:
        raise invalid("image", f"choose pictures first, at most {ANNOTATED_MAXIMUM:,}")
    engine = services.engine
    rows = await engine.in_catalog(lambda: list(images_of(engine.index, image_ids, engine.paths)))
    return await as_file(request, services, rows, "zip")
