"""Middleware of every request: its id, security headers, log line, counts and unexpected errors.

Plain ASGI, because that costs only microseconds, and sees a request until its end.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Iterable
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hasse.service.addresses import ROOT_PATH, networks_of, root_path_of, with_root_path
from hasse.service.core.readiness import Phase
from hasse.service.errors import ServiceError
from hasse.service.http.hosts import WRONG_HOST
from hasse.service.http.problems import problem
from hasse.service.http.services import Services
from hasse.service.telemetry.logs import LOGGER, event
from hasse.service.telemetry.metrics import Metrics
from hasse.service.telemetry.stages import SPAN

if TYPE_CHECKING:
    from hasse.service.telemetry.traces import TracedSpan

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
_PIECE = 65_536  # bytes of an answer that are passed to the server at a time
# Least time between two refusals. A refusal by the application costs the event loop 1.5 to 4 ms,
# and some clients repeat a refused request at once.
_REFUSAL_SECONDS = 0.015
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_MISSING_HOST = ServiceError("malformed", "HTTP/1.1 needs the header Host, once")
_GONE = ServiceError("client_gone", "the client did not wait for the answer")
_STOPPING = ServiceError("not_ready", Phase.STOPPING.value, retry_after=1)
_UNREAD = ServiceError(
    "busy", "too many long answers wait for their clients to read them", retry_after=1
)
_INTERNAL = ServiceError("internal", "something went wrong inside; the log has the details")


class RequestMiddleware:
    """The outermost layer of the application.

    While the service stops, each answer closes its connection, so that no client sends another
    request into a port that closes. So does the answer to a request with an unread body.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self.app = app
        self.services = services
        self.unread_bytes = 0  # of long answers that are being sent
        self._refused_at = 0.0  # when the last 429 was or will be sent
        self._root_path = services.settings.root_path
        self._trusted = networks_of(services.settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if (self._root_path or self._trusted) and (
            root_path := root_path_of(scope, self._root_path, self._trusted)
        ):
            token = ROOT_PATH.set(root_path)
            try:
                await _Exchange(self, with_root_path(scope, root_path), receive, send).serve()
            finally:
                ROOT_PATH.reset(token)
        else:
            await _Exchange(self, scope, receive, send).serve()

    async def pace_refusal(self) -> None:
        """Wait until a 429 may be sent, which slows clients that repeat requests at once."""
        now = perf_counter()
        self._refused_at = min(max(now, self._refused_at + _REFUSAL_SECONDS), now + 1.0)
        if self._refused_at > now:
            await asyncio.sleep(self._refused_at - now)


class _Exchange:
    """A request and its answer."""

    def __init__(
        self, middleware: RequestMiddleware, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._start = perf_counter()
        self._middleware = middleware
        self._services = middleware.services
        self._id = request_id_of(scope["headers"])
        self._method = scope["method"]
        self._receive = receive
        self._send_raw = send
        # A client that gets no "100 Continue" may send its body or not, so the start of its next
        # request is unknown.
        self._withheld = _is_body_withheld(scope)
        self._scope = {
            **scope,
            "hasse.request_id": self._id,
            "hasse.body_withheld": self._withheld,
            # The server leaves out the body of the answer to HEAD.
            "method": "GET" if self._method == "HEAD" else self._method,
        }
        self._status = self._unread = 0
        self._is_replaced = False
        self._span: TracedSpan | None = None

    async def serve(self) -> None:
        """Answer the request, also after an error; count, log and, if wanted, trace it."""
        traces = self._services.traces
        if traces is None or self._scope["path"] in _QUIET:
            await self._serve()
            return
        self._span = traces.request(self._scope, self._method, self._id)
        token = SPAN.set(self._span.recorded)
        try:
            await self._serve()
        finally:
            SPAN.reset(token)

    async def _serve(self) -> None:
        try:
            if (refusal := self._host_error()) is not None:
                await self._answer(refusal)
            else:
                receive = self._receive_withheld if self._withheld else self._receive
                await self._middleware.app(self._scope, receive, self._send)
        except asyncio.CancelledError as error:
            is_gone = error.args == (CLIENT_GONE,)
            if self._status != 0 and not is_gone:
                raise
            # A disconnected client does not read the answer, but the answer is counted and logged.
            await self._answer(_GONE if is_gone else _STOPPING)
        except Exception:
            LOGGER.exception("failed", extra={"facts": _ids(self._id, self._trace)})
            if self._status != 0:
                raise  # an answer has begun: the server closes the connection
            await self._answer(_INTERNAL)
        finally:
            self._services.bodies.release(self._scope)
            self._middleware.unread_bytes -= self._unread
            # Recorded later, because uvloop sends the answer at the end of this loop iteration.
            asyncio.get_running_loop().call_soon(self._record, perf_counter() - self._start)

    def _host_error(self) -> ServiceError | None:
        """Return the error for a request without one Host header that names this service."""
        hosts = [value for name, value in self._scope["headers"] if name == b"host"]
        if not hosts and self._scope["http_version"] == "1.0":  # Host is optional (RFC 9112, 3.2)
            return None
        if len(hosts) != 1:
            return _MISSING_HOST
        connected_to = (self._scope.get("server") or ("",))[0]
        is_known = self._services.hosts.knows(hosts[0].decode("latin-1"), connected_to)
        return None if is_known else WRONG_HOST

    async def _receive_withheld(self) -> Message:
        self._withheld = False
        return await self._receive()

    async def _send(self, message: Message) -> None:
        """Send a message of the application, unless too many long answers are being sent."""
        is_long = message["type"] == "http.response.start" and "hasse.in_pieces" not in self._scope
        if is_long and (size := _length(message)) > _PIECE:
            self._unread = size
            self._middleware.unread_bytes += size
            if self._middleware.unread_bytes > self._services.settings.buffered_bytes:
                self._is_replaced = True
                await self._answer(_UNREAD)
        if message["type"] == "http.response.start" and message["status"] == 429:
            await self._middleware.pace_refusal()
        if not self._is_replaced:
            await self._send_message(message)

    async def _send_message(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            headers += [pair for pair in SECURITY_HEADERS if pair[0] not in present]
            headers.append((b"x-request-id", self._id.encode()))
            if self._withheld or self._services.readiness.phase is Phase.STOPPING:
                headers.append((b"connection", b"close"))
        elif len(body := message.get("body", b"")) > _PIECE:
            # After each piece the server waits until the client has read most of it.
            for at in range(0, len(body) - _PIECE, _PIECE):
                piece = body[at : at + _PIECE]
                await self._send_raw({"type": message["type"], "body": piece, "more_body": True})
                await asyncio.sleep(0)  # let other tasks run, also if the client reads fast
            message = {**message, "body": body[at + _PIECE :]}
        await self._send_raw(message)

    async def _answer(self, error: ServiceError) -> None:
        self._scope["hasse.reason"] = error.reason
        await problem(error, self._id)(self._scope, self._receive, self._send_message)

    def _record(self, seconds: float) -> None:
        scope = self._scope
        route = getattr(scope.get("route"), "path", "other")
        reason = scope.get("hasse.reason")
        if self._span is not None:
            self._span.end(self._method, route, self._status, reason)
        record_answer(
            self._services.metrics,
            self._id,
            method=self._method,
            path=scope["path"],
            route=route,
            status=self._status,
            reason=reason,
            key=scope.get("hasse.key"),
            seconds=seconds,
            trace=self._trace,
        )

    @property
    def _trace(self) -> str | None:
        return None if self._span is None else self._span.trace_id


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
    trace: str | None = None,
) -> None:
    """Count an answer and log its line.

    Args:
        metrics: counts the answer.
        request_id, method, path, status, reason: fields of the log line.
        route: the route to count by: the path with the names of its parameters.
        key: name of the access key of the request.
        seconds: time from head to answer; None for a request that was not admitted.
        trace: id of the request's trace, if it is traced.
    """
    metrics.requests(route, status).inc()
    if reason is not None:
        metrics.rejections(reason).inc()
    if seconds is not None:
        metrics.request_seconds(route).observe(seconds)
    level = logging.WARNING if status >= 500 else logging.INFO
    if route in _QUIET:
        level = logging.DEBUG
    facts: dict[str, Any] = _ids(request_id, trace) | {"method": method, "path": path[:200]}
    if key is not None:
        facts["key"] = key
    facts |= {"status": status, "ms": round(1e3 * (seconds or 0.0), 2)}
    if reason is not None:
        facts["reason"] = reason
    event("request", level, **facts)


@lru_cache(maxsize=16)  # thousands of refusals a second are alike except for their ids
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
    """Return the id that the client sent with its request if it is valid, or a new id."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{random.getrandbits(64):016x}"  # identifies log lines; not a secret


def _ids(request_id: str, trace: str | None) -> dict[str, str]:
    return {"id": request_id} if trace is None else {"id": request_id, "trace": trace}


def _length(start: Message) -> int:
    """Return the size of an answer in bytes, or 0 if its head has no content length."""
    sizes = (value for name, value in start.get("headers", ()) if name == b"content-length")
    return int(next(sizes, b"0"))


def _is_body_withheld(scope: Scope) -> bool:
    """Return whether a client sends the body only after "100 Continue"."""
    return any(
        name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
    )
