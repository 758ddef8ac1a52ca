"""Two pages of the order: the diagram around a caption or picture, and whether a claim is true."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from hasse.service.core import records
from hasse.service.core.encoding import check_query
from hasse.service.core.engine import Engine
from hasse.service.errors import invalid
from hasse.service.http.services import ServicesHere
from hasse.service.page.diagram_layout import lay_out
from hasse.service.page.errors import PageRoute
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import View, render
from hasse.service.page.results import ShownPicture
from hasse.service.plural import count
from hasse.service.questions import table
from hasse.service.questions.answers import Entailment
from hasse.service.questions.handlers import ask
from hasse.service.questions.requests import DiagramQuery, EntailsQuery
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import CLAIM_WORDS, verdict

router = APIRouter(route_class=PageRoute)


@router.get("/page/diagram")
async def show_diagram(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the Hasse diagram around a caption or a stored picture."""
    engine, stages = services.engine, Stages()
    query = PageQuery.read(request.query_params, services.settings).about(image)
    middle = query.text if query.image_id is None else query.image_id
    if middle == "":
        raise invalid("q", "name what to draw the diagram of: some words, or a picture")
    diagram = await ask(engine, table.DIAGRAM, DiagramQuery(middle=middle), stages)
    captions = sum(len(node.captions) for node in diagram.nodes)
    view = View(
        "diagram.html",
        title=f"{query.text or 'A picture'} in the order · Hasse",
        announcement=f"{count(captions, 'caption')} in the diagram.",
        context={"layout": lay_out(diagram, query), "unknown_words": diagram.unknown_words},
        url=query.diagram_url(query.text, query.image_id),
        stages=stages,
    )
    return await render(request, query, view)


@router.get("/page/claim")
async def claim(
    request: Request, *, services: ServicesHere, hypothesis: str = "", image: str = ""
) -> Response:
    """Show whether a caption is true of a stored picture."""
    engine, stages = services.engine, Stages()
    query = PageQuery.read(request.query_params, services.settings).about(image)
    caption = _parse_caption(engine, hypothesis)
    if query.image_id is None:
        raise invalid("image", "name the picture that the caption may be true of")
    shown = ShownPicture.stored(await records.image(engine, query.image_id), query)
    entails_query = EntailsQuery(premise=query.image_id, hypothesis=caption, where=True)
    answer = await ask(engine, table.ENTAILS, entails_query, stages)
    return await render(
        request, query, _claim_view(shown, caption, answer, stages, query.claim_url(caption))
    )


@router.post("/page/claim")
async def claim_of_upload(request: Request, services: ServicesHere) -> Response:
    """Show whether a caption is true of an uploaded picture."""
    engine, stages = services.engine, Stages()
    form = await services.bodies.form(request)
    fields = request.state.fields = dict(form.texts)
    picture = form.picture().content
    query = PageQuery.read(fields, services.settings)
    caption = _parse_caption(engine, fields.get("hypothesis", ""))
    entails_query = EntailsQuery(premise=picture, hypothesis=caption, where=True)
    answer = await ask(engine, table.ENTAILS, entails_query, stages)
    shown = ShownPicture.uploaded(await engine.pictures.thumbnail_of_upload(picture))
    url = query.upload_url(fields.get("upload", ""), caption)
    return await render(request, query, _claim_view(shown, caption, answer, stages, url))


def _parse_caption(engine: Engine, hypothesis: str) -> str:
    caption = " ".join(hypothesis.split())
    if not caption:
        raise invalid("hypothesis", "type a caption that may be true of the picture")
    check_query(caption, engine.vocabulary, engine.settings, "hypothesis")
    return caption


def _claim_view(
    shown: ShownPicture, caption: str, answer: Entailment, stages: Stages, url: str
) -> View:
    level = None if answer.probability is None else verdict(answer.probability)
    words = "hard to say" if level is None else CLAIM_WORDS[level]
    words = words.capitalize()
    return View(
        "claim.html",
        title=f"{words}: {caption} · Hasse",
        announcement=f"{words}.",
        context={"picture": shown, "caption": caption, "answer": answer, "words": words},
        url=url,
        stages=stages,
    )
