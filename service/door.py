"""Who is turned away at the door: under overload, what most clients get must cost the least.

A search that would be refused is refused when its head has come: before its body is read, before
there is a task or a route for it. Who asks again before `Retry-After` has passed is heard when its
turn comes, at the latest then, so that clients who do not wait cannot keep the service from those
it let in. A search for which there will be a place stands in line as the bytes that came, if these
are few: nothing is made of it that would have to be put aside and taken up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Protocol

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from service.edge import SECURITY_HEADERS, Alike, Record, request_id_of
from service.errors import MEDIA_TYPE, ServiceError, problem_body
from service.head import HeldHead
from service.pace import Pace, Turns

# A client that asks again within so many seconds of a refusal will go on so. Of such clients fewer
# are heard than of others that come too soon, which may be the many clients of one proxy.
_HASTE_SECONDS, _HASTE_SHARE = 0.01, 0.1
# Shorter waits are let be: what comes in one moment is no haste, and to wait costs work too.
_SHORTEST_WAIT = 0.1
_LAST_WORDS_SECONDS = 0.002  # in which what a client has sent is read and answered
_DISCARD_SECONDS = 5.0  # for the rest of a body that nobody will read
_WAITING_BYTES = 16_384  # a longer request does not wait here: others count the bytes of bodies
# Bytes of a head, or of what may follow a body, that are kept while there is no end to it.
_ENDLESS_BYTES = 65_536
# Heads of requests that are remembered, and the bytes of one, at most.
_HEADS, _HEAD_BYTES = 1_024, 2_048
_TOO_LARGE = ServiceError(
    "head_too_large", f"the head of a request is not read beyond {_ENDLESS_BYTES:,} bytes"
)
_MALFORMED = ServiceError("malformed", "this is not a request as HTTP/1.1 has it")
_END = b"\r\n\r\n"  # of a head
_HEAD = b"".join(
    b"%b: %b\r\n" % (name.lower().encode(), value.encode())
    for name, value in (
        *SECURITY_HEADERS.items(),
        ("Cache-Control", "no-store"),
        ("Content-Type", MEDIA_TYPE),
    )
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let in, and its place in the metrics."""

    error: ServiceError
    route: str


class Host(Protocol):
    """Who says which requests are let in."""

    def refusal(self, method: bytes, target: bytes, *, called: bool) -> Refusal | None:
        """Return what a request is refused with, if it is; else it comes in now.

        `called` are those who stood in line, when it is their turn.
        """

    def refuses(self, method: bytes, target: bytes) -> Refusal | None:
        """Return what a request would be refused with; nobody comes in by that."""

    def stands_in_line(self, data: bytes, turn: Callable[[], None]) -> bool:
        """Tell whether a request that begins so has to wait; `turn` is called when it need not."""

    def leaves_line(self, turn: Callable[[], None]) -> None:
        """Forget a request that waits."""

    def is_stopping(self) -> bool:
        """Tell whether each answer is the last on its connection."""


class Plain(NamedTuple):
    """What is known of a request by its head, if its body is as long as that says."""

    length: int
    method: bytes
    target: bytes


class Notice(NamedTuple):
    """What all are told who are refused for one reason; only the id of the request differs."""

    head: bytes
    before: bytes  # the body up to the id of the request
    after: bytes
    server_headers: list[
        tuple[bytes, bytes]
    ]  # that `head` has; the server makes others each second


@dataclass(frozen=True, slots=True)
class Keeper:
    """What all connections of one service share.

    Attributes:
        host: says who is let in.
        record: told of each refusal.
        pace: how long a client waits that was refused and asks again before `Retry-After`.
        haste: likewise one that asks again at once, within `_HASTE_SECONDS`.
        turns: calls those that wait, each in its turn.
    """

    host: Host
    record: Record
    pace: Pace
    haste: Pace
    turns: Turns = field(default_factory=Turns)
    _notices: dict[tuple[str, int | None], Notice] = field(default_factory=dict)
    _plain: dict[bytes, Plain] = field(default_factory=dict)

    def remember(
        self, data: bytes, headers: list[tuple[bytes, bytes]], method: bytes, target: bytes
    ) -> None:
        """Keep what a parser made of the head of a request that `data` is, the whole of it.

        Thousands of requests in a second have few heads between them. One with an id of its own
        comes once.
        """
        head, _, body = data.partition(_END)
        given = dict(headers)
        length = int(given.get(b"content-length", b"0"))
        alone = b"x-request-id" in given or b"transfer-encoding" in given
        if alone or length != len(body) or len(head) > _HEAD_BYTES:
            return
        if len(self._plain) >= _HEADS:
            self._plain.clear()
        self._plain[head] = Plain(length, method, target)

    def plain(self, data: bytes) -> Plain | None:
        """Return what `data` is, if that is one whole request with a head that is remembered."""
        head, _, body = data.partition(_END)
        known = self._plain.get(head)
        return known if known is not None and known.length == len(body) else None

    def notice(self, error: ServiceError, server_headers: list[tuple[bytes, bytes]]) -> Notice:
        """Return what an error is answered with; it is put together once in a second."""
        said = (error.detail, error.retry_after)
        found = self._notices.get(said)
        if found is None or found.server_headers is not server_headers:
            found = self._notices[said] = _notice(error, server_headers)
        return found


def _notice(error: ServiceError, server_headers: list[tuple[bytes, bytes]]) -> Notice:
    head = STATUS_LINE[error.kind.status] + _HEAD
    head += b"".join(b"%b: %b\r\n" % pair for pair in server_headers)
    if error.retry_after is not None:
        head += b"retry-after: %d\r\n" % error.retry_after
    before, name, after = problem_body(error, "").partition(b'"request_id": "')
    return Notice(head, before + name, after, server_headers)


class Door(HttpToolsProtocol):
    """One connection: uvicorn's protocol, which is not troubled with what is refused."""

    keeper: ClassVar[Keeper]

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.url = b""
        self._between = True  # two requests
        self._answering: RequestResponseCycle | None = None  # `cycle` is of the last that came
        self._refused = False  # the request that is being received, until it is whole
        self._last = False  # the connection ends with it
        self._asked_to_wait = 0
        self._refused_at: float | None = None  # the last request, if the next one has not come
        self._waiting: bytes | None = None  # what came, until it is its turn to be heard
        self._in_line_since: float | None = None
        # Neither a request, of which there is a whole head, nor an answer is under way.
        self._resting_since: float | None = None
        self._endless = 0  # bytes that came since the parser made something of them
        self._parsed = False  # something of the bytes that come now
        self._begun = self._refusals = 0  # requests in the bytes that come now, and those refused
        self._discarding: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Await the first request."""
        super().connection_made(transport)
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Take in what came, now or in its turn."""
        if self._waiting is not None:
            self._waiting += data
            if len(self._waiting) > _WAITING_BYTES:
                self._leave_line()
                self.resume()
        elif not self._may_wait(data):
            self._take_in(data)
        elif self._is_too_soon():
            self._wait(data)
        else:
            self._hear(data)

    def on_message_begin(self) -> None:
        """Begin to receive a request, of which nothing is kept that a refusal does not need."""
        self._between = False
        self._parsed = True
        self._begun += 1
        if self._is_idle():
            self._rest()  # so long has the head to come
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        """Refuse the request, or let it in."""
        self._parsed = True
        if self.parser.should_upgrade():
            return  # it comes once more, as a plain request
        self._unset_keepalive_if_required()
        came, self._in_line_since = self._in_line_since, None
        is_next = self._is_idle()
        if is_next:
            method = self.parser.get_method()
            refusal = self.keeper.host.refusal(method, self.url, called=came is not None)
            if refusal is not None:
                self._refuse(refusal)
                return
        url, headers, waits = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, waits
        self.headers += headers  # the list is the scope's
        if came is not None:
            self.scope["hasse.waited"] = self.loop.time() - came  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        self.cycle.transport = HeldHead(self.transport)  # type: ignore[assignment]
        if is_next:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        """Let the body of a request that was refused fall."""
        self._parsed = True
        if self._resting_since is not None:
            self._resting_since = self.loop.time()  # the answer did not wait for the body
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        if self.parser.should_upgrade():
            return
        self._between = True
        if not self._refused:
            super().on_message_complete()
            self.scope["hasse.whole"] = True  # type: ignore[typeddict-unknown-key]
            return
        self._refused = False
        self._stop_discarding()
        if self._last:
            self.transport.close()
        else:
            self._end_refused()

    def on_response_complete(self) -> None:
        """Go on with the next request, or rest."""
        if self._answering is not None:
            self._answering.transport.finish()  # type: ignore[attr-defined]
        super()._unset_keepalive_if_required()
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._is_idle():
            self._resting_since = self.loop.time()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has rested for too long, or look again when it will have."""
        self.timeout_keep_alive_task = None
        if self._resting_since is None:
            return
        left = self._resting_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_at_rest(left)
        else:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Close when what the client has already sent was answered."""
        if self._stands_in_line():
            return  # it is answered in its turn, and that is the last answer here
        if self._waiting is None and self._refused_at is None:
            super().shutdown()
            return
        self.resume()
        self.loop.call_later(_LAST_WORDS_SECONDS, super().shutdown)

    def hear(self) -> None:
        """Hear what came too soon, or let it stand in line."""
        if self._waiting is None or self._stands_in_line():
            return  # it came in since, by its length or by a stop, and this may be another request
        data, self._waiting = self._waiting, None
        if not self.transport.is_closing():
            self._hear(data)

    def resume(self) -> None:
        """Hear what came, if it waits."""
        data, self._waiting = self._waiting, None
        if data is not None and not self.transport.is_closing():
            self._take_in(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._leave_line()
        self._waiting = None
        self._stop_discarding()
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        super()._unset_keepalive_if_required()

    def _hear(self, data: bytes) -> None:
        """Refuse what begins the next request, let it stand in line, or take it in."""
        if self._is_refused(data):
            return
        if self._is_in_line(data):
            self._wait(data)
        else:
            self._take_in(data)

    def _wait(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._waiting = data

    def _is_refused(self, data: bytes) -> bool:
        """Refuse a request that is like others which were, without parsing it once more."""
        known = self.keeper.plain(data)
        if known is None or self.keeper.host.is_stopping():
            return False
        refusal = self.keeper.host.refuses(known.method, known.target)
        if refusal is None:
            return False
        self._last = False
        self._endless = 0
        self._say_no(refusal, known.method, known.target, request_id_of(()))
        self._end_refused()
        return True

    def _take_in(self, data: bytes) -> None:
        is_next = self._between and self._is_idle()
        self._parsed = False
        self._begun = self._refusals = 0
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            # A target that came whole has an end, but the parser of its parts takes no more either.
            self._give_up(_TOO_LARGE if len(self.url) >= _ENDLESS_BYTES else _MALFORMED)
            return
        except HttpParserUpgrade as upgrade:
            self._take_in_plain(data[upgrade.args[0] :])
            return
        self._endless = 0 if self._parsed else self._endless + len(data)
        if self._endless > _ENDLESS_BYTES:
            self._give_up(_TOO_LARGE)
            return
        if self._refused and self._discarding is None:  # so long has the rest of a body to come
            self._discarding = self.loop.call_later(_DISCARD_SECONDS, self.transport.close)
        if is_next and self._begun == self._refusals == 1 and self._between and not self._last:
            self.keeper.remember(data, self.headers, self.parser.get_method(), self.url)

    def _take_in_plain(self, rest: bytes) -> None:
        """Take in a request without its wish for another protocol, and what came behind its head.

        Nobody is switched to another protocol here, but who asks whether it might (Java's client
        does so by itself) sends a request like any other. The parser takes its body for something
        in that protocol.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._give_up(_MALFORMED)
            return
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self._take_in(b"\r\n".join((*lines, b"", rest)))

    def _may_wait(self, data: bytes) -> bool:
        return self._between and self._is_idle() and len(data) <= _WAITING_BYTES

    def _stands_in_line(self) -> bool:
        return self._waiting is not None and self._in_line_since is not None

    def _leave_line(self) -> None:
        if self._stands_in_line():
            self.keeper.host.leaves_line(self.resume)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        self._refused = True
        self._refusals += 1
        self._last = (
            self.keeper.host.is_stopping()
            or self.expect_100_continue
            or not self.parser.should_keep_alive()
        )
        self._say_no(refusal, self.parser.get_method(), self.url, request_id_of(self.headers))
        if self.expect_100_continue:
            self.transport.close()  # who waits to be told to go on will not send a body now

    def _say_no(self, refusal: Refusal, method: bytes, target: bytes, request_id: str) -> None:
        start = perf_counter()
        error = refusal.error
        self._asked_to_wait = error.retry_after or 0
        self._tell(error, request_id)
        path = target.partition(b"?")[0].decode("ascii", "replace")
        name = method.decode("ascii")
        alike = Alike(name, refusal.route, path, error.kind.status, error.reason)
        self.keeper.record.soon(alike, request_id, perf_counter() - start)

    def _end_refused(self) -> None:
        self._refused_at = self.loop.time()
        self._rest()

    def _give_up(self, error: ServiceError) -> None:
        """Say what is wrong with what came, of which no request can be made, and hang up."""
        start = perf_counter()
        request_id = request_id_of(())
        self._last = True
        self._tell(error, request_id)
        self.transport.close()
        alike = Alike("-", "other", "-", error.kind.status, error.reason)
        self.keeper.record.soon(alike, request_id, perf_counter() - start)

    def _tell(self, error: ServiceError, request_id: str) -> None:
        sent_id = request_id.encode()
        notice = self.keeper.notice(error, self.server_state.default_headers)
        last = b"connection: close\r\n" if self._last else b""
        length = len(notice.before) + len(sent_id) + len(notice.after)
        own = b"%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (last, sent_id, length)
        self.transport.write(b"".join((notice.head, own, notice.before, sent_id, notice.after)))

    def _stop_discarding(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
            self._discarding = None

    def _is_too_soon(self) -> bool:
        """Tell whether the next request has to wait because the last one was refused just now."""
        refused_at, self._refused_at = self._refused_at, None
        if refused_at is None or self.keeper.host.is_stopping():
            return False
        now = self.loop.time()
        rested = now - refused_at
        if rested >= self._asked_to_wait:
            return False
        pace = self.keeper.haste if rested < _HASTE_SECONDS else self.keeper.pace
        wait = pace.wait(now, self._asked_to_wait - rested)
        if wait <= _SHORTEST_WAIT:
            return False
        self.keeper.turns.wait(self.loop, now + wait, self.hear)
        return True

    def _is_in_line(self, data: bytes) -> bool:
        """Tell whether the next request, of which `data` is the beginning, has to stand in line."""
        if not self.keeper.host.stands_in_line(data, self.resume):
            return False
        self._in_line_since = self.loop.time()
        return True

    def _unset_keepalive_if_required(self) -> None:
        # The timer stays, and looks again: one for each request would cost more than a refusal.
        self._resting_since = None

    def _rest(self) -> None:
        self._resting_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_at_rest(self.timeout_keep_alive)

    def _look_at_rest(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )


def door(host: Host, record: Record, refusals_per_second: float) -> type[Door]:
    """Return the protocol of the connections of one service; see `Keeper`."""
    pace, haste = Pace(refusals_per_second), Pace(_HASTE_SHARE * refusals_per_second)
    return type("Door", (Door,), {"keeper": Keeper(host, record, pace, haste)})
