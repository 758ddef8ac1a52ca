"""What every request passes: an id, security headers, one log line, counters, no stray exception.

Plain ASGI, so that it costs microseconds and sees the whole life of a request.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Iterable
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hasse.service.addresses import ROOT_PATH, networks_of, root_path_of, with_root_path
from hasse.service.errors import ServiceError, problem
from hasse.service.http.hosts import WRONG_HOST
from hasse.service.runtime.logs import LOGGER, event
from hasse.service.runtime.metrics import Metrics
from hasse.service.runtime.readiness import Phase
from hasse.service.services import Services

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
CLIENT_GONE = "client_gone"  # message of the cancellation of a request whose client disconnected
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PIECE = 65_536  # bytes of an answer that are handed to the server at a time
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_NO_HOST = ServiceError("malformed", "HTTP/1.1 asks for the header Host, once")
_GONE = ServiceError("client_gone", "the client did not wait for the answer")
_STOPPING = ServiceError("not_ready", Phase.STOPPING.value, retry_after=1)
_INTERNAL = ServiceError("internal", "something went wrong inside; the log has the details")


class RequestMiddleware:
    """The outermost layer of the application.

    While the service stops, each answer closes its connection, so that no client sends another
    request into a port that closes. So does the answer to a request whose body was not asked for.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._root_path = services.settings.root_path
        self._trusted = networks_of(services.settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (self._root_path or self._trusted) and (
            root_path := root_path_of(scope, self._root_path, self._trusted)
        ):
            token = ROOT_PATH.set(root_path)
            try:
                await self._serve(with_root_path(scope, root_path), receive, send)
            finally:
                ROOT_PATH.reset(token)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = perf_counter()
        request_id = request_id_of(scope["headers"])
        method = scope["method"]
        scope = {**scope, "hasse.request_id": request_id}
        # A client that waits for "100 Continue" in vain may send its body or not: where its next
        # request begins is unknown.
        withheld = scope["hasse.body_withheld"] = _is_body_withheld(scope)
        if method == "HEAD":
            scope["method"] = "GET"  # the server leaves the body out
        status = 0

        async def receive_on() -> Message:
            nonlocal withheld
            withheld = False
            return await receive()

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"] = list(message.get("headers", ()))
                present = {name for name, _ in headers}
                headers += [pair for pair in SECURITY_HEADERS if pair[0] not in present]
                headers.append((b"x-request-id", request_id.encode()))
                if withheld or self._services.readiness.phase is Phase.STOPPING:
                    headers.append((b"connection", b"close"))
            elif len(body := message.get("body", b"")) > _PIECE:
                # The server waits after a piece until the client has read most of it.
                for at in range(0, len(body) - _PIECE, _PIECE):
                    piece = body[at : at + _PIECE]
                    await send({"type": message["type"], "body": piece, "more_body": True})
                message = {**message, "body": body[at + _PIECE :]}
            await send(message)

        async def answer(error: ServiceError) -> None:
            scope["hasse.reason"] = error.reason
            await problem(error, request_id)(scope, receive, send_on)

        try:
            if (refusal := self._wrong_host(scope)) is not None:
                await answer(refusal)
            else:
                await self._app(scope, receive_on if withheld else receive, send_on)
        except asyncio.CancelledError as error:
            is_gone = error.args == (CLIENT_GONE,)
            if status != 0 and not is_gone:
                raise
            # A client that is gone reads no answer, but it is counted and logged.
            await answer(_GONE if is_gone else _STOPPING)
        except Exception:
            LOGGER.exception("failed", extra={"facts": {"id": request_id}})
            if status != 0:
                raise  # too late for another answer: the server closes the connection
            await answer(_INTERNAL)
        finally:
            self._services.bodies.release(scope)
            record = partial(
                record_answer,
                self._services.metrics,
                request_id,
                method=method,
                path=scope["path"],
                route=getattr(scope.get("route"), "path", "other"),
                status=status,
                reason=scope.get("hasse.reason"),
                key=scope.get("hasse.key"),
                seconds=perf_counter() - start,
            )
            # Later, since uvloop sends the answer at the end of this turn of the loop.
            asyncio.get_running_loop().call_soon(record)

    def _wrong_host(self, scope: Scope) -> ServiceError | None:
        """Return the error for a request without one Host header that names this service."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if not hosts and scope["http_version"] == "1.0":  # which may lack it (RFC 9112, 3.2)
            return None
        if len(hosts) != 1:
            return _NO_HOST
        connected_to = (scope.get("server") or ("",))[0]
        known = self._services.hosts.knows(hosts[0].decode("latin-1"), connected_to)
        return None if known else WRONG_HOST


def record_answer(
    metrics: Metrics,
    request_id: str,
    *,
    method: str,
    path: str,
    route: str,
    status: int,
    reason: str | None,
    key: str | None = None,
    seconds: float | None = None,
) -> None:
    """Count an answer and log its line.

    Args:
        metrics: counts it.
        request_id, method, path, status, reason: what the line says.
        route: where it is counted: the path with its parameters' names.
        key: name of the access key of the request.
        seconds: from head to answer; None for a request that was not let in.
    """
    metrics.requests(route, status).inc()
    if reason is not None:
        metrics.rejections(reason).inc()
    if seconds is not None:
        metrics.request_seconds(route).observe(seconds)
    level = logging.WARNING if status >= 500 else logging.INFO
    if route in _QUIET:
        level = logging.DEBUG
    facts: dict[str, Any] = {"id": request_id, "method": method, "path": path[:200]}
    if key is not None:
        facts["key"] = key
    facts |= {"status": status, "ms": round(1e3 * (seconds or 0.0), 2)}
    if reason is not None:
        facts["reason"] = reason
    event("request", level, **facts)


@lru_cache(maxsize=16)  # thousands of refusals a second differ in little but their ids
def prepared_problem(
    reason: str, detail: str, retry_after: int | None, root_path: str
) -> tuple[bytes, bytes, bytes]:
    """Return the status and headers of an error, and its body before and after the request id."""
    token = ROOT_PATH.set(root_path)
    response = problem(ServiceError(reason, detail, retry_after=retry_after), "")
    ROOT_PATH.reset(token)
    pairs = [pair for pair in response.raw_headers if pair[0] != b"content-length"]
    lines = [b"%b: %b\r\n" % pair for pair in (*pairs, *SECURITY_HEADERS)]
    before, name, after = bytes(response.body).partition(b'"request_id": "')
    return b"".join((STATUS_LINE[response.status_code], *lines)), before + name, after


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id that a client gave its request, if it is a good one, or a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{random.getrandbits(64):016x}"  # tells log lines apart; no secret


def _is_body_withheld(scope: Scope) -> bool:
    """Tell whether a client sends the body only after "100 Continue"."""
    return any(
        name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
    )
