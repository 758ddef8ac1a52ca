"""The route `/mcp`: tools for language-model agents, by the Model Context Protocol over HTTP."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hasse.service.http.services import SearchServices, Services
from hasse.service.routes.agent_tools import server_of

router = APIRouter(include_in_schema=False)


class _Exchange(Response):
    """Passes a request to the server of the `mcp` package. A session is one request."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Imported at the first request, because the import takes half a second.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        services = self._services
        manager = StreamableHTTPSessionManager(
            server_of(lambda: services.engine),
            json_response=True,
            stateless=True,
            max_request_body_size=services.settings.json_bytes,
        )
        async with manager.run():
            await manager.asgi_app(scope, receive, send)


@router.post("/mcp")
async def exchange(request: Request, services: SearchServices) -> Response:
    """Answer one message of an agent. It counts as a search for the quota of its key."""
    services.hosts.require_same_origin(request.headers)
    return _Exchange(services)
