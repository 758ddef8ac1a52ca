"""Makes the routes of all questions from their table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import cleandoc
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.responses import Response

from hasse.service.http.bodies import FORM, media_type
from hasse.service.http.openapi import QUESTION_REASONS, Id, problems, takes
from hasse.service.http.services import SearchServices, Services
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.pipeline import run
from hasse.service.questions.requests import DiagramQuery
from hasse.service.questions.table import DIAGRAM, QUESTIONS, Question
from hasse.service.schemas import CaptionText
from hasse.service.telemetry.stages import Stages

_PICTURE_REASONS = ("too_many_pixels", "not_a_picture", "damaged_picture")
_TIMING = {
    "Server-Timing": {
        "description": "Milliseconds in decode, queue, encode, prefilter, rerank, metadata, total.",
        "schema": {"type": "string"},
    }
}
Endpoint = Callable[[Request, Services], Awaitable[Response]]


def question_routes() -> list[APIRoute]:
    """Return the routes of all questions."""
    router = APIRouter()
    by_path: dict[str, list[Question[Any, Any]]] = {}
    for question in QUESTIONS:
        by_path.setdefault(question.path, []).append(question)
    for path, questions in by_path.items():
        by_json = next((question for question in questions if question.json), None)
        by_form = next((question for question in questions if question.picture), None)
        _add(
            router,
            path,
            questions,
            _endpoint(by_json, by_form),
            name=path.strip("/").replace("/", "_"),
            methods=["POST"],
            openapi_extra=takes(
                by_json.request if by_json else None, by_form.request if by_form else None
            ),
        )
    _add(router, DIAGRAM.path, [DIAGRAM], caption_diagram, methods=["GET"])
    _add(
        router,
        "/images/{image_id}/diagram",
        [DIAGRAM],
        image_diagram,
        methods=["GET"],
        summary="Draw the Hasse diagram of an image",
        description="Return the captions that are true of an image, from particular to general.",
    )
    return [route for route in router.routes if isinstance(route, APIRoute)]


def _add(
    router: APIRouter,
    path: str,
    questions: Iterable[Question[Any, Any]],
    endpoint: Callable[..., Awaitable[Response]],
    **options: Any,
) -> None:
    first, *_ = questions
    reasons = [reason for question in questions for reason in question.reasons]
    pictures = _PICTURE_REASONS if any(question.picture for question in questions) else ()
    entry = {"summary": first.summary, "description": cleandoc(first.description)} | options
    router.add_api_route(
        path,
        endpoint,
        tags=[first.tag],
        response_model=first.answer,
        responses={
            200: {"description": first.success, "headers": _TIMING},
            **problems(*QUESTION_REASONS, *reasons, *pictures),
        },
        **entry,
    )


def _endpoint(
    by_json: Question[Any, Any] | None, by_form: Question[Any, Any] | None
) -> Callable[..., Awaitable[Response]]:
    """Return the endpoint of one address, for a question as JSON, one as a form, or both."""

    async def answer(request: Request, services: SearchServices) -> Response:
        stages, bodies = Stages(), services.bodies
        if by_form is not None and (by_json is None or media_type(request) == FORM):
            form = await bodies.form(request)
            request_model = form.as_model(by_form.request, by_form.picture)
            return await _answer(services, by_form, request_model, stages)
        if by_json is None:
            raise TypeError("a question is sent as JSON, as a form, or as both")
        request_model = await bodies.json(request, by_json.request)
        return await _answer(services, by_json, request_model, stages)

    return answer


async def caption_diagram(
    services: SearchServices,
    caption: Annotated[CaptionText, Query(description="The caption in the middle.")],
) -> Response:
    """Return the diagram around a caption."""
    return await _answer(services, DIAGRAM, DiagramQuery(middle=caption), Stages())


async def image_diagram(services: SearchServices, image_id: Id) -> Response:
    """Return the diagram around an image."""
    return await _answer(services, DIAGRAM, DiagramQuery(middle=image_id), Stages())


async def _answer(
    services: Services, question: Question[Any, Any], request_model: Any, stages: Stages
) -> Response:
    """Answer a question, with the time of its stages; no cache may store the answer."""
    body = await run(services.engine, HANDLERS[question], request_model, stages, to_json)
    headers = {"Server-Timing": stages.header(), "Cache-Control": "no-store"}
    return Response(body, 200, headers, "application/json")
