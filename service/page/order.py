"""The pages of the order itself: the diagram of a caption or a picture, and a claim's verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.core import diagram, lattice
from service.core.engine import Engine
from service.core.stages import Stages
from service.errors import ServiceError, invalid
from service.lattice_schemas import Entailment
from service.page.drawing import drawn
from service.page.picture import Picture, brought, stored
from service.page.problems import Visit, problem, require_known
from service.page.responses import Screen, respond
from service.page.views import Query
from service.plural import count
from service.services import Services, ServicesHere

router = APIRouter(route_class=Visit)

_NOTHING_SAID = "say what may be true of the picture"


@router.get("/page/order")
async def order(request: Request, services: ServicesHere, image: str = "") -> Response:
    """Show the Hasse diagram of some words or of a stored picture."""
    query = Query.read(request.query_params, services.settings)

    async def screen(engine: Engine) -> Screen:
        about, stages = query.about(image), Stages()
        if about.image_id is not None:
            found = await diagram.of_image(engine, about.image_id, stages)
        elif about.text:
            found = await diagram.of_caption(engine, about.text, stages)
            require_known(engine, [about.text])
        else:
            raise invalid("q", "say whose diagram to draw: some words, or a picture")
        captions = sum(len(node.captions) for node in found.nodes)
        return Screen(
            "order.html",
            title=f"{about.text or 'A picture'} in the order · Hasse",
            spoken=f"{count(captions, 'caption')} in the diagram.",
            context={
                "about": about,
                "drawing": drawn(found, about),
                "unknown_words": found.unknown_words,
            },
            url=about.of_order(about.text, about.image_id),
            timing=stages.header(),
        )

    return await _shown(request, query, services, screen)


@router.get("/page/claim")
async def claim(
    request: Request,
    *,
    services: ServicesHere,
    hypothesis: str = "",
    image: str = "",
) -> Response:
    """Tell whether a caption is true of a stored picture."""
    query = Query.read(request.query_params, services.settings)
    said = " ".join(hypothesis.split())

    async def screen(engine: Engine) -> Screen:
        about, stages = query.about(image), Stages()
        if about.image_id is None or not said:
            raise invalid("hypothesis", _NOTHING_SAID)
        shown = stored(await engine.image(about.image_id), about)
        answer = await lattice.entails(engine, about.image_id, said, stages)
        require_known(engine, [said])
        screen = _claimed(about, shown, said, answer, stages)
        return replace(screen, url=about.of_claim(said))

    return await _shown(request, query, services, screen)


@router.post("/page/claim")
async def claim_of_picture(request: Request, services: ServicesHere) -> Response:
    """Tell whether a caption is true of a picture that the visitor brings."""
    try:
        services.readiness.require_engine()
        form = await services.bodies.form(request)
        content, fields = form.picture().content, dict(form.texts)
    except ServiceError as error:
        return problem(request, Query(), error)
    query = Query.read(fields, services.settings)
    said = " ".join(fields.get("hypothesis", "").split())

    async def screen(engine: Engine) -> Screen:
        if not said:
            raise invalid("hypothesis", _NOTHING_SAID)
        stages = Stages()
        answer = await lattice.entails(engine, content, said, stages)
        require_known(engine, [said])
        shown = brought(await engine.preview(content))
        screen = _claimed(query, shown, said, answer, stages)
        return replace(screen, url=query.picture_url(fields.get("brought", ""), said))

    return await _shown(request, query, services, screen)


def _claimed(query: Query, shown: Picture, said: str, answer: Entailment, stages: Stages) -> Screen:
    verdict = {True: "True", False: "Not true", None: "Hard to say"}[answer.entailed]
    return Screen(
        "claim.html",
        title=f"{verdict}: {said} · Hasse",
        spoken=f"{verdict}.",
        context={
            "about": query,
            "picture": shown,
            "said": said,
            "answer": answer,
            "verdict": verdict,
            "pictures": query.of_text(said),
        },
        timing=stages.header(),
    )


async def _shown(
    request: Request,
    query: Query,
    services: Services,
    screen: Callable[[Engine], Awaitable[Screen]],
) -> Response:
    try:
        found = await screen(services.engine)
    except ServiceError as error:
        return problem(request, query, error)
    return respond(request, query, found)
