"""Searches, which are asked thousands of times a second, go to their routes without a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.routes.context import Searching


class Direct:
    """Middleware that answers by routes of one address, which find by themselves what they need.

    To compare an address with the pattern of one route after another, and to make ready for what
    other routes may need, takes a twelfth of what the event loop has to do for a search.

    Args:
        app: answers all other requests.
        routes: those of the application; `Searching` ones may be answered here.
        handlers: of exceptions, by their type.
    """

    def __init__(
        self, app: ASGIApp, routes: Iterable[BaseRoute], handlers: Mapping[Any, Any]
    ) -> None:
        self._app = app
        self._routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, Searching) and route.answers_alone
            for method in route.methods or ()
        }
        self._answering = ExceptionMiddleware(_answer, handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let it go on to the application."""
        if scope["type"] == "http" and not scope.get("root_path"):
            route = self._routes.get((scope["method"], scope["path"]))
            if route is not None:
                scope["route"] = route
                await self._answering(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    response = await scope["route"].answer(Request(scope, receive, send))
    await response(scope, receive, send)
