"""HTTP connection that sheds load: searches over capacity get 429 before their body is read.

It limits heads, idle time, pipelined requests and unread answers. It answers a request to upgrade
to another protocol as plain HTTP, and cancels the work of a client that disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from fastapi.routing import APIRoute
from httptools import HttpParserError, HttpParserUpgrade
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hasse.models.errors import HasseError
from hasse.service.core.readiness import Phase
from hasse.service.errors import ServiceError
from hasse.service.http.middleware import (
    CLIENT_GONE,
    prepared_problem,
    record_answer,
    request_id_of,
)
from hasse.service.http.services import Services

HEAD_BYTES = 65_536  # largest head of a request
MAX_PIPELINED = 8  # requests that may wait in a connection for earlier answers
_READ_BYTES = 16_384  # a client that reads less in `write_seconds` counts as reading nothing
_TOO_LARGE = ServiceError(
    "head_too_large", f"the head of a request is not read beyond {HEAD_BYTES:,} bytes"
)
_MALFORMED = ServiceError("malformed", "this is not an HTTP/1.1 request")


class PipelineFullError(HasseError):
    """Ends the parsing of a connection with too many unanswered requests."""


class Connection(HttpToolsProtocol):
    """One connection. A subclass for each application has its services and search routes."""

    services: ClassVar[Services]
    searches: ClassVar[Sequence[APIRoute]]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.url = b""
        self._running: tuple[RequestResponseCycle, asyncio.Task[None]] | None = None
        self._abort_timer: asyncio.TimerHandle | None = None  # while a client has to read
        self._body_until = 0.0  # an answered request may send its body until then
        self._ignores_input = False  # bytes after the requests received so far are dropped
        self._has_progress = False  # the parser recognized something in the latest bytes
        self._has_new_head = False  # a head has begun in the latest bytes, and not ended
        self._unrecognized_bytes = 0  # received since the last progress
        self._is_refused = False  # the request that is being received
        self._closes_after = False  # the refused request is the last of its connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._restart_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the work of the client."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._cancel_abort()
        if self._running is not None:
            cycle, task = self._running
            cycle.disconnected = True
            cycle.message_event.set()
            task.cancel(CLIENT_GONE)

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes."""
        if self._ignores_input:
            return
        self._has_progress = False
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            if isinstance(error.__context__, PipelineFullError):
                self._end_after_answers()
                return
            # httptools also fails on a target longer than HEAD_BYTES.
            self._give_up(_TOO_LARGE if len(self.url) >= HEAD_BYTES else _MALFORMED)
            return
        except HttpParserUpgrade as upgrade:
            self._parse_as_plain(data[upgrade.args[0] :])
            return
        if self._has_new_head and self._is_idle():
            self._has_new_head = False
            self._restart_idle_timer()
        self._unrecognized_bytes = 0 if self._has_progress else self._unrecognized_bytes + len(data)
        if self._unrecognized_bytes > HEAD_BYTES:
            self._give_up(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin to receive a head, which must be complete before the idle timer ends."""
        client_reads_no_refusal = self._is_refused and self.flow.write_paused
        if client_reads_no_refusal or len(self.pipeline) >= MAX_PIPELINED:
            raise PipelineFullError
        super().on_message_begin()
        self._is_refused = False
        self._has_progress = self._has_new_head = True

    def on_headers_complete(self) -> None:
        """Start the request, refuse it, or queue it behind an earlier one."""
        self._has_progress, self._has_new_head = True, False
        if self.parser.should_upgrade():
            return  # the request is parsed again, as plain HTTP
        if self._is_idle():
            route = self._search_route()
            if route is not None and (error := self.services.admission.refusal()) is not None:
                self._refuse(error, route)
                return
            self._unset_keepalive_if_required()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body; drop it if the request is refused."""
        self._has_progress = True
        if self._is_refused:
            return
        super().on_body(body)
        if self._is_idle() and self.loop.time() < self._body_until:
            self._restart_idle_timer()

    def on_message_complete(self) -> None:
        """End a request."""
        self._has_progress = True
        if self._is_refused:
            if self._closes_after:
                self._close()
        elif not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to read the last answer."""
        super().on_response_complete()
        self._body_until = self.loop.time() + self.services.settings.body_seconds
        if self.transport.is_closing():
            self._abort_unless_read()

    def pause_writing(self) -> None:
        """Start the time limit for the client to read its answer."""
        super().pause_writing()
        self._abort_unless_read()

    def resume_writing(self) -> None:
        """Continue to write, because the client reads."""
        super().resume_writing()
        self._cancel_abort()
        if self.transport.is_closing():
            self._abort_unless_read()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        self._close()

    def shutdown(self) -> None:
        """Close the connection, at once or after the current answer."""
        super().shutdown()
        if self._abort_timer is not None or self.transport.is_closing():
            self._cancel_abort()
            self._abort_unless_read()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        task = self.loop.create_task(cycle.run_asgi(app))  # type: ignore[arg-type]
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        self._running = cycle, task

    def _search_route(self) -> str | None:
        """Return the route of a search, as metrics name it; None for other requests.

        Also None for searches from pages of other sites: a browser does not show them an answer
        without CORS headers, which only the application adds.
        """
        if self.services.settings.cors_origins and self._has_origin():
            return None
        method, path = self.parser.get_method().decode(), self._path()
        for route in self.searches:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return route.path
        return None

    def _path(self) -> str:
        path = self.url.partition(b"?")[0].decode("ascii", "replace")
        root_path = self.services.settings.root_path
        return path.removeprefix(root_path) if path.startswith(f"{root_path}/") else path

    def _has_origin(self) -> bool:
        return any(name == b"origin" for name, _ in self.headers)

    def _refuse(self, error: ServiceError, route: str) -> None:
        self._is_refused = True
        self._closes_after = (
            self.services.readiness.phase is Phase.STOPPING
            or self.expect_100_continue
            or not self.parser.should_keep_alive()
        )
        self._answer(
            error, route, self.parser.get_method().decode(), self._path(), closes=self._closes_after
        )
        self._restart_idle_timer()  # the time limit for the rest of the body
        if self.expect_100_continue:
            self._close()  # the client does not send its body

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _restart_idle_timer(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _end_after_answers(self) -> None:
        """Close after answering the requests received so far; the client may repeat later ones."""
        self._ignores_input = True
        if self._is_idle():
            self._close()
        else:
            self.cycle.keep_alive = False

    def _close(self) -> None:
        """Close when the client has read its answer, or its time limit ends."""
        self.transport.close()
        self._abort_unless_read()

    def _abort_unless_read(self) -> None:
        if self._abort_timer is None:
            settings = self.services.settings
            seconds = settings.write_seconds
            if self.services.readiness.phase is Phase.STOPPING:
                seconds = min(seconds, settings.shutdown_seconds / 4)
            unread = self.transport.get_write_buffer_size()
            self._abort_timer = self.loop.call_later(seconds, self._abort, unread)

    def _abort(self, unread: int) -> None:
        self._abort_timer = None
        if unread - self.transport.get_write_buffer_size() < _READ_BYTES:
            self.transport.abort()
        else:
            self._abort_unless_read()

    def _cancel_abort(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None

    def _give_up(self, error: ServiceError) -> None:
        """Answer bytes that are not a request, and close."""
        self.headers = []
        self._answer(error, closes=True)
        self._close()

    def _answer(
        self,
        error: ServiceError,
        route: str = "other",
        method: str = "-",
        path: str = "-",
        *,
        closes: bool,
    ) -> None:
        """Send an error without the application, and count it."""
        request_id = request_id_of(self.headers)
        root_path = self.services.settings.root_path
        head, before, after = prepared_problem(
            error.reason, error.detail, error.retry_after, root_path
        )
        body = b"%b%b%b" % (before, request_id.encode(), after)
        lines = [b"%b: %b\r\n" % pair for pair in self.server_state.default_headers]
        lines.append(b"x-request-id: %b\r\n" % request_id.encode())
        lines.append(b"content-length: %d\r\n" % len(body))
        lines.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
        self.transport.write(b"".join((head, *lines, body)))
        record_answer(
            self.services.metrics,
            request_id,
            method=method,
            path=path,
            route=route,
            status=error.kind.status,
            reason=error.reason,
        )

    def _parse_as_plain(self, remaining: bytes) -> None:
        """Parse a request again without its `Upgrade` header, with the bytes after its head.

        No other protocol is supported, but some clients (Java's) offer HTTP/2 with each request,
        and the parser then takes the body for that protocol.
        """
        if self.parser.get_method() == b"CONNECT":
            self._give_up(_MALFORMED)
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.data_received(b"\r\n".join((*lines, b"", remaining)))


def connections_of(services: Services, searches: Sequence[APIRoute]) -> type[Connection]:
    """Return the class of the connections of one application."""
    return type("Connection", (Connection,), {"services": services, "searches": searches})
