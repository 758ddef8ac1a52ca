"""The first page: the two questions, and what there is before one is asked."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.core import lattice
from service.core.engine import Engine
from service.core.stages import Stages
from service.errors import ServiceError, invalid
from service.lattice_schemas import PARTS_MAXIMUM
from service.page import sample, views
from service.page.picture import Picture, brought
from service.page.problems import Visit, problem, require_known
from service.page.responses import STAY, Screen, respond
from service.page.scale import Scale
from service.page.views import Query, folding
from service.plural import count
from service.schemas import CaptionAnswer, ImageAnswer, SearchOptions
from service.services import ServicesHere

router = APIRouter(route_class=Visit)

WIDEST_SHOWN_WHOLE = 1600  # pixels; of wider pictures the page shows the thumbnail


@router.get("/")
async def page(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the pictures some words are true of, what is true of a picture, or the first view."""
    query = Query.read(request.query_params, services.settings)
    try:
        query = query.about(image)
        engine = services.engine
        drawn = await services.samples.of(engine)
        if query.text:
            screen = await _images(engine, query, drawn.scale)
        elif query.image_id is not None:
            screen = await _captions_of_stored(engine, query, query.image_id, drawn.scale)
        else:
            context = {"welcome": sample.linked(drawn, query)}
            screen = Screen("welcome.html", context=context)
    except ServiceError as error:
        return problem(request, query, error)
    return respond(request, query, screen)


@router.get("/page/picture")
async def picture_gone(request: Request, services: ServicesHere) -> Response:
    """Explain why the address of an answer about a visitor's picture holds no picture."""
    screen = Screen("gone.html", spoken="That picture was not kept.", url=STAY)
    return respond(request, Query.read(request.query_params, services.settings), screen)


@router.post("/page/picture")
async def picture(request: Request, services: ServicesHere) -> Response:
    """Show what is true of a picture that the visitor brings."""
    query = Query()
    stages = Stages()
    try:
        engine = services.engine
        form = await services.bodies.form(request)
        content, fields = form.picture().content, dict(form.texts)
        query = Query.read(fields, services.settings)
        answer = await engine.captions_by_picture(
            content, folding(query, services.settings), stages=stages
        )
        preview = await engine.preview(content)
        drawn = await services.samples.of(engine)
    except ServiceError as error:
        return problem(request, query, error)
    screen = _captions(engine, query, brought(preview), answer, drawn.scale, stages)
    url = query.picture_url(fields.get("brought", ""))
    return respond(request, query, replace(screen, url=url))


async def _images(engine: Engine, query: Query, scale: Scale) -> Screen:
    stages = Stages()
    options = SearchOptions(k=query.k, mode=query.mode)
    parts = [part.strip() for part in query.text.split(" + ") if part.strip()]
    if len(parts) > PARTS_MAXIMUM:
        raise invalid("q", f"at most {PARTS_MAXIMUM} parts can be put together with +")
    answer: ImageAnswer
    if len(parts) > 1:
        answer = await lattice.all_of(engine, parts, options, stages)
    else:
        answer = await engine.images_by_caption(query.text, options, stages=stages)
    require_known(engine, parts)
    cards = views.cards(answer, query, scale)
    verdict = views.verdict(answer, len(cards), "picture", stages)
    calibration, vocabulary = engine.calibration, engine.vocabulary
    doubt = views.doubt(
        answer,
        [calibration.image] * len(parts),
        "This is not likely to be true of any picture here",
        vocabulary.knows,
    )
    first = [hit.image_id for hit in answer.hits[: views.COMPARED]]
    return Screen(
        "images.html",
        title=f"{query.text} · Hasse",
        spoken=f"{count(len(cards), 'picture')}. {doubt} {verdict.sentence}.",
        context={
            "cards": cards,
            "verdict": verdict,
            "doubt": doubt,
            "shared": (
                query.of_together("common", image_ids=first) if len(first) > 1 and not doubt else ""
            ),
            "more": query.of_together(words=parts),
            "unknown_words": answer.unknown_words,
        },
        timing=stages.header(),
    )


async def _captions_of_stored(engine: Engine, query: Query, image_id: int, scale: Scale) -> Screen:
    stages = Stages()
    record = await engine.image(image_id)
    answer = await engine.captions_by_image_id(
        image_id, folding(query, engine.settings), stages=stages
    )
    own = [row.caption for row in record.captions]
    whole = record.width is not None and record.width <= WIDEST_SHOWN_WHOLE
    shown = Picture(
        url=record.image_url if whole else record.thumbnail_url,
        name=record.file_name,
        alt=own[0] if own else record.file_name,
        captions=views.links(own, query),
        file_url=record.image_url,
        image_id=image_id,
    )
    return _captions(engine, query, shown, answer, scale, stages)


def _captions(
    engine: Engine,
    query: Query,
    shown: Picture,
    answer: CaptionAnswer,
    scale: Scale,
    stages: Stages,
) -> Screen:
    calibration, vocabulary = engine.calibration, engine.vocabulary
    lines = views.lines(answer, query, scale, vocabulary.knows)
    verdict = views.verdict(answer, len(lines), "caption", stages)
    doubt = views.doubt(
        answer,
        [calibration.image],
        "No caption here is likely to be true of it",
        vocabulary.knows,
    )
    return Screen(
        "captions.html",
        title=f"True of {shown.name} · Hasse",
        spoken=f"{count(len(lines), 'caption')}. {doubt} {verdict.sentence}.",
        context={
            "picture": shown,
            "lines": lines,
            "verdict": verdict,
            "doubt": doubt,
            "more": query.of_together(image_ids=[] if shown.image_id is None else [shown.image_id]),
        },
        timing=stages.header(),
    )
