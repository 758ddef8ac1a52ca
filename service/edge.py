"""What every request passes: an id, security headers, one log line, counters, no stray exception.

Plain ASGI, so that it costs microseconds and sees the whole life of a request.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.bodies import Bodies
from service.errors import ServiceError, problem
from service.logs import LOGGER, event
from service.metrics import Metrics

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})


class Edge:
    """The outermost layer of the application.

    `refusal` says of a request what it is refused with before anything else is done for it: under
    overload, what most clients get must cost the least.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        bodies: Bodies,
        refusal: Callable[[Scope], ServiceError | None],
    ) -> None:
        self._app = app
        self._refusal = refusal
        self._metrics = metrics
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        request_id = _request_id(scope)
        # HEAD is GET without the body, which the server leaves out.
        method = scope["method"]
        scope = {**scope, "hasse.request_id": request_id}
        if method == "HEAD":
            scope["method"] = "GET"
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._app(scope, receive, send_on)
            else:
                scope["hasse.reason"] = refusal.reason
                await problem(refusal, request_id)(scope, receive, send_on)
        except Exception:
            LOGGER.exception("failed", extra={"facts": {"id": request_id}})
            if status != 0:
                raise  # too late for another answer: the server closes the connection
            scope["hasse.reason"] = "internal"
            error = ServiceError("internal", "something went wrong inside; the log has the details")
            await problem(error, request_id)(scope, receive, send_on)
        finally:
            self._bodies.release(scope)
            self._record(scope, method, status, perf_counter() - start)

    def _record(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        reason = scope.get("hasse.reason")
        self._metrics.answered(route, status, reason, seconds)
        level = logging.INFO
        if route in _QUIET:
            level = logging.DEBUG
        elif status >= 500:
            level = logging.WARNING
        facts = {"reason": reason} if reason else {}
        event(
            "request",
            level,
            id=scope["hasse.request_id"],
            method=method,
            path=scope["path"][:200],
            status=status,
            ms=round(seconds * 1e3, 2),
            **facts,
        )


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return secrets.token_hex(8)
