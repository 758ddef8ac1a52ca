"""What a route finds in its application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import signature
from typing import Annotated, Any, get_type_hints

from fastapi import Depends, Path, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from service.core.engine import Engine
from service.errors import MEDIA_TYPE, REASONS
from service.http.access import Access, Purpose
from service.http.bodies import Bodies
from service.runtime.metrics import Metrics
from service.runtime.readiness import Readiness
from service.schemas import ID_MAXIMUM, Problem
from service.settings import Settings

Finder = Callable[[Request], Awaitable[Any]]


async def _engine(request: Request) -> Engine:
    readiness: Readiness = request.app.state.readiness
    return readiness.require_engine()


async def _readiness(request: Request) -> Readiness:
    found: Readiness = request.app.state.readiness
    return found


async def _bodies(request: Request) -> Bodies:
    found: Bodies = request.app.state.bodies
    return found


async def _metrics(request: Request) -> Metrics:
    request.app.state.record.settle()  # answers are counted some at a time
    found: Metrics = request.app.state.metrics
    return found


async def _settings(request: Request) -> Settings:
    found: Settings = request.app.state.settings
    return found


async def _itself(request: Request) -> Request:
    return request


def _admitted(purpose: Purpose) -> Finder:
    async def admit(request: Request) -> None:
        access: Access = request.app.state.access
        name = access.admit(request.headers, purpose)
        if name:
            request.scope["hasse.key"] = name

    return admit


MAY_READ = Depends(_admitted("read"))
_may_search = _admitted("search")
MAY_SEARCH = Depends(_may_search)
MAY_WRITE = Depends(_admitted("write"))

Id = Annotated[int, Path(ge=0, le=ID_MAXIMUM)]
EngineHere = Annotated[Engine, Depends(_engine)]
ReadinessHere = Annotated[Readiness, Depends(_readiness)]
BodiesHere = Annotated[Bodies, Depends(_bodies)]
MetricsHere = Annotated[Metrics, Depends(_metrics)]
SettingsHere = Annotated[Settings, Depends(_settings)]

_BY_TYPE: dict[Any, Finder] = {Request: _itself, Engine: _engine, Bodies: _bodies}


class Searching(APIRoute):
    """A route for who `MAY_SEARCH`, that finds by itself what its endpoint asks of us.

    FastAPI's search for dependencies takes as long as all else that it does for a request. It is
    left to it where there is more to find, such as a part of the path.

    Attributes:
        answer: answers a request.
        answers_alone: whether it needs nothing of FastAPI for that.
    """

    answer: Callable[[Request], Coroutine[Any, Any, Response]]
    answers_alone: bool

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        hints = get_type_hints(self.endpoint)
        kinds = {name: hints[name] for name in signature(self.endpoint).parameters}

        async def find_and_answer(request: Request) -> Response:
            found = {name: await _BY_TYPE[kind](request) for name, kind in kinds.items()}
            response: Response = await self.endpoint(**found)
            return response

        self.answers_alone = _BY_TYPE.keys() >= set(kinds.values())
        answer = find_and_answer if self.answers_alone else super().get_route_handler()

        async def admit_and_answer(request: Request) -> Response:
            await _may_search(request)
            return await answer(request)

        self.answer = admit_and_answer
        return admit_and_answer


def problems(*reasons: str) -> dict[int | str, dict[str, Any]]:
    """Return the part of an OpenAPI operation that lists its errors, from the one table."""
    found: dict[int | str, dict[str, Any]] = {}
    for reason in (*reasons, "internal"):
        kind = REASONS[reason]
        words = f"{kind.title} (`{reason}`)"
        if kind.status in found:
            found[kind.status]["description"] += f"; {words}"
            continue
        found[kind.status] = {
            "description": words,
            "content": {
                MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}
            },
        }
        if kind.status in (429, 503):
            found[kind.status]["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait before trying again.",
                    "schema": {"type": "integer"},
                }
            }
    return found
