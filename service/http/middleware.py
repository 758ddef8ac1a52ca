"""What every request passes: an id, security headers, one log line, counters, no stray exception.

Plain ASGI, so that it costs microseconds and sees the whole life of a request.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter, time
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ServiceError, problem
from service.http.bodies import Bodies, is_withheld
from service.runtime.logs import LOGGER, events
from service.runtime.metrics import Metrics
from service.runtime.readiness import Phase

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RAW_SECURITY = [
    (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_NO_HOST = ServiceError("malformed", "HTTP/1.1 asks for the header Host, once")
_TOGETHER = 256  # answers that wait to be described, at most


class Alike(NamedTuple):
    """What answers may have in common; `route` is their place in the metrics.

    `key` is the name of the key that they were given for. What was refused `at_door` has no time
    that says anything of the service.
    """

    method: str
    route: str
    path: str
    status: int
    reason: str | None
    key: str | None = None
    at_door: bool = False

    @property
    def level(self) -> int:
        """How much their lines matter."""
        if self.route in _QUIET:
            return logging.DEBUG
        return logging.WARNING if self.status >= 500 else logging.INFO

    def facts(self, request_id: str = "", milliseconds: float = 0.0) -> dict[str, Any]:
        """Return what the line of one of them says."""
        facts: dict[str, Any] = {"id": request_id, "method": self.method, "path": self.path[:200]}
        if self.key is not None:
            facts["key"] = self.key
        facts |= {"status": self.status, "ms": round(milliseconds, 2)}
        if self.reason:
            facts["reason"] = self.reason
        return facts


class Record:
    """Counts each answer and writes its line.

    But for failures, which are told at once, they wait until `settle`: a hundred together cost a
    fraction of what each does between two others' work, and there may be thousands a second.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting: dict[Alike, list[tuple[float, str, float]]] = defaultdict(list)
        self._waiting_count = 0

    def __call__(self, kind: Alike, request_id: str, seconds: float) -> None:
        """Count and describe one answer: soon, or a failure at once with all that waits."""
        self.soon(kind, request_id, seconds)
        if kind.status >= 500:
            self.settle()

    def soon(self, kind: Alike, request_id: str, seconds: float) -> None:
        """Count and describe one answer that may be one of thousands in a second."""
        self.all_soon(kind, [(time(), request_id, seconds)])

    def all_soon(self, kind: Alike, each: list[tuple[float, str, float]]) -> None:
        """Count and describe many, by when they were given, the id and the seconds of each."""
        self._waiting[kind] += each
        self._waiting_count += len(each)
        if self._waiting_count >= _TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Count and describe what waits; whoever answers calls this several times a second."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._waiting_count = 0
        for kind, each in waiting.items():
            self._metrics.answered(kind.route, kind.status, kind.reason, len(each))
            if not kind.at_door:
                self._metrics.took(kind.route, [seconds for _, _, seconds in each])
            events("request", kind.level, kind.facts(), ((at, i, 1e3 * s) for at, i, s in each))


class Edge:
    """The outermost layer of the application.

    While the service stops, each answer is the last on its connection, so that no client sends
    another request into a port that closes; so is one to a request whose body was not asked for.
    """

    def __init__(
        self, app: ASGIApp, record: Record, bodies: Bodies, stopping: Callable[[], bool]
    ) -> None:
        self._app = app
        self._record = record
        self._bodies = bodies
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter() - scope.get("hasse.waited", 0.0)
        request_id = request_id_of(scope["headers"])
        # HEAD is GET without the body, which the server leaves out.
        method = scope["method"]
        scope = {**scope, "hasse.request_id": request_id}
        # Who sends its body when it is told to go on, and was not, may not send it any more: where
        # the next request begins nobody knows.
        withheld = is_withheld(scope)
        if method == "HEAD":
            scope["method"] = "GET"
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
                headers += [pair for pair in _RAW_SECURITY if pair[0] not in present]
                headers.append((b"x-request-id", request_id.encode()))
                if withheld or self._stopping():
                    headers.append((b"connection", b"close"))
            await send(message)

        try:
            if _names_its_host(scope):
                await self._app(scope, receive_on if withheld else receive, send_on)
            else:
                scope["hasse.reason"] = _NO_HOST.reason
                await problem(_NO_HOST, request_id)(scope, receive, send_on)
        except asyncio.CancelledError:
            if status != 0:
                raise
            # A stop does not wait for it any longer: a body that does not come, for one.
            scope["hasse.reason"] = "not_ready"
            error = ServiceError("not_ready", Phase.STOPPING.value, retry_after=1)
            await problem(error, request_id)(scope, receive, send_on)
        except Exception:
            LOGGER.exception("failed", extra={"facts": {"id": request_id}})
            if status != 0:
                raise  # too late for another answer: the server closes the connection
            scope["hasse.reason"] = "internal"
            error = ServiceError("internal", "something went wrong inside; the log has the details")
            await problem(error, request_id)(scope, receive, send_on)
        finally:
            self._bodies.release(scope)
            kind = Alike(
                method,
                getattr(scope.get("route"), "path", "other"),
                scope["path"],
                status,
                scope.get("hasse.reason"),
                scope.get("hasse.key"),
            )
            self._record(kind, request_id, perf_counter() - start)


def _names_its_host(scope: Scope) -> bool:
    """Tell whether a request has one Host, which HTTP/1.0 does not ask for (RFC 9112, 3.2)."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 or (not hosts and bool(scope["http_version"] == "1.0"))


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id that a client gave its request, if it is a good one, or a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{random.getrandbits(64):016x}"  # tells lines of the log apart, and guards nothing
