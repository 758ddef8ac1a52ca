"""Who is turned away at the door: under overload, what most clients get must cost the least.

A search that would be refused is refused when its head has come: before its body is read, before
there is a task or a route for it. Such refusals have a rate of their own. A connection that was
refused is read again when its turn comes, at the latest when `Retry-After` has passed, so that
clients who do not wait for it cannot keep the service from those it let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.edge import SECURITY_HEADERS, Given, Record, request_id_of
from service.errors import MEDIA_TYPE, ServiceError, problem_body

# Shorter waits are let be: what comes in one moment is no haste, and to wait costs work too.
_SHORTEST_WAIT = 0.1
_LAST_WORDS_SECONDS = 0.002  # in which what a client has sent is read and answered
_DISCARD_SECONDS = 5.0  # for the rest of a body that nobody will read
_HEAD = b"".join(
    b"%b: %b\r\n" % (name.lower().encode(), value.encode())
    for name, value in (
        *SECURITY_HEADERS.items(),
        ("Cache-Control", "no-store"),
        ("Content-Type", MEDIA_TYPE),
    )
)


class Pace:
    """Spreads refusals over time: so many a second, none put off longer than is said to it."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next = 0.0

    def wait(self, now: float, longest: float) -> float:
        """Return for how long a client that is refused now should not be read, in seconds."""
        self._next = max(now, self._next + self._interval)
        wait = min(self._next - now, longest)
        self._next = now + wait
        return wait


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let in, and its place in the metrics."""

    error: ServiceError
    route: str


# Says what a request of this method to this target is refused with, if it would be.
Refuse = Callable[[bytes, bytes], Refusal | None]


class Notice(NamedTuple):
    """What all are told who are refused for one reason; only the id of the request differs."""

    head: bytes
    before: bytes  # the body up to the id of the request
    after: bytes


@dataclass(frozen=True, slots=True)
class Keeper:
    """What all connections of one service share.

    Attributes:
        refusal: says what a request is refused with.
        record: told of each refusal.
        pace: when those who were refused are read again.
        stopping: whether each answer is the last on its connection.
    """

    refusal: Refuse
    record: Record
    pace: Pace
    stopping: Callable[[], bool]
    _notices: dict[tuple[str, int | None], Notice] = field(default_factory=dict)

    def notice(self, error: ServiceError) -> Notice:
        """Return what an error is answered with; it is put together once."""
        said = (error.detail, error.retry_after)
        if said not in self._notices:
            self._notices[said] = _notice(error)
        return self._notices[said]


def _notice(error: ServiceError) -> Notice:
    head = STATUS_LINE[error.kind.status] + _HEAD
    if error.retry_after is not None:
        head += b"retry-after: %d\r\n" % error.retry_after
    before, name, after = problem_body(error, "").partition(b'"request_id": "')
    return Notice(head, before + name, after)


class Door(HttpToolsProtocol):
    """One connection: uvicorn's protocol, which is not troubled with what is refused."""

    keeper: ClassVar[Keeper]

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._refused = False  # the request that is being received, until it is whole
        self._last = False  # the connection ends with it
        self._asked_to_wait = 0
        self._waiting: asyncio.TimerHandle | None = None
        self._discarding: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Take in what came; who was refused has so long to send the rest of a body."""
        super().data_received(data)
        if self._refused and self._discarding is None:
            self._discarding = self.loop.call_later(_DISCARD_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        """Refuse the request, or let it in."""
        self._refused = False
        if self._is_idle():
            refusal = self.keeper.refusal(self.parser.get_method(), self.url)
            if refusal is not None:
                self._refuse(refusal)
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Let the body of a request that was refused fall."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        if not self._refused:
            super().on_message_complete()
            return
        self._refused = False
        self._stop_discarding()
        if self._last:
            self.transport.close()
        else:
            self._pause()

    def shutdown(self) -> None:
        """Close when what the client has already sent was answered."""
        if self._waiting is None:
            super().shutdown()
            return
        self._resume()
        self.loop.call_later(_LAST_WORDS_SECONDS, super().shutdown)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._stop_discarding()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        start = perf_counter()
        error = refusal.error
        self._refused = True
        self._last = (
            self.keeper.stopping()
            or self.expect_100_continue
            or not self.parser.should_keep_alive()
        )
        self._asked_to_wait = error.retry_after or 0
        request_id = request_id_of(self.headers)
        notice = self.keeper.notice(error)
        head = [notice.head]
        head += [b"%b: %b\r\n" % pair for pair in self.server_state.default_headers]
        if self._last:
            head.append(b"connection: close\r\n")
        sent_id = request_id.encode()
        length = len(notice.before) + len(sent_id) + len(notice.after)
        head.append(b"x-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (sent_id, length))
        self.transport.write(b"".join((*head, notice.before, sent_id, notice.after)))
        self.server_state.total_requests += 1
        if self.expect_100_continue:
            self.transport.close()  # who waits to be told to go on will not send a body now
        path = self.url.partition(b"?")[0].decode("ascii", "replace")
        self.keeper.record.refused(
            Given(
                request_id,
                self.parser.get_method().decode("ascii"),
                refusal.route,
                path,
                error.kind.status,
                error.reason,
                perf_counter() - start,
            )
        )

    def _stop_discarding(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
            self._discarding = None

    def _pause(self) -> None:
        wait = self.keeper.pace.wait(self.loop.time(), self._asked_to_wait)
        if wait > _SHORTEST_WAIT:
            self.flow.pause_reading()
            self._waiting = self.loop.call_later(wait, self._resume)
        else:
            self._keep_alive()

    def _resume(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if not self.transport.is_closing():
            self._keep_alive()
            self.flow.resume_reading()

    def _keep_alive(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )


def door(
    refusal: Refuse,
    record: Record,
    refusals_per_second: float,
    stopping: Callable[[], bool],
) -> type[Door]:
    """Return the protocol of the connections of one service; see `Keeper`."""
    keeper = Keeper(refusal, record, Pace(refusals_per_second), stopping)
    return type("Door", (Door,), {"keeper": keeper})
