"""Who is turned away at the door: under overload, what most clients get must cost the least.

A search that would be refused is refused when its head has come: before its body is read, before
there is a task or a route for it. Who asks again before `Retry-After` has passed is heard when its
turn comes, at the latest then, so that clients who do not wait cannot keep the service from those
it let in. A search for which there will be a place stands in line as the bytes that came, if these
are few: nothing is made of it that would have to be put aside and taken up again.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, ClassVar

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.errors import ServiceError
from service.head import HeldHead
from service.http import disconnect
from service.http.middleware import Alike, Record, request_id_of
from service.keeper import Asked, Headers, Host, Keeper, Refusal
from service.pace import Pace

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
_TOO_LARGE = ServiceError(
    "head_too_large", f"the head of a request is not read beyond {_ENDLESS_BYTES:,} bytes"
)
_MALFORMED = ServiceError("malformed", "this is not a request as HTTP/1.1 has it")
_NOTHING = Asked("-", "other", "-")  # of which no request can be made


class Door(HttpToolsProtocol):
    """One connection: uvicorn's protocol, which is not troubled with what is refused."""

    keeper: ClassVar[Keeper]

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.url = b""
        self._between = True  # two requests
        self._answering: RequestResponseCycle | None = None  # `cycle` is of the last that came
        self._refused = False  # the request that is being received, until it is whole
        self._asked = _NOTHING  # by that one
        self._untold = False  # that a request which came whole is refused
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
        if self._untold:
            self.keeper.tell()
        if self._waiting is not None:
            self._waiting += data
            if len(self._waiting) > _WAITING_BYTES:
                self._leave_line()
                self.resume()
        elif not (self._between and self._is_idle() and len(data) <= _WAITING_BYTES):
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
        self.scope[disconnect.SCOPE] = disconnect.Departure()  # type: ignore[literal-required]
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

    @property
    def server_headers(self) -> Headers:
        """What each answer says of the server and of the time."""
        return self.server_state.default_headers

    def told(self, answer: bytes, wait: int) -> None:
        """Send an answer that asks to wait for so many seconds."""
        self._untold = False
        if not self.transport.is_closing():
            self.transport.write(answer)
            self._asked_to_wait = wait
            self._end_refused()

    def shutdown(self) -> None:
        """Close when what the client has already sent was answered."""
        if self._untold:
            self.keeper.tell()
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
            self._answering.scope[disconnect.SCOPE].happen()  # type: ignore[literal-required]
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
        if not self.keeper.refuses(data, self):
            return False
        self._untold = True
        self._last = False
        self._endless = 0
        self._unset_keepalive_if_required()
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
            self.keeper.remember(data, self.headers, self._asked)

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
        path = self.url.partition(b"?")[0].decode("ascii", "replace")
        self._asked = Asked(self.parser.get_method().decode("ascii"), refusal.route, path)
        self._asked_to_wait = refusal.error.retry_after or 0
        self._tell(refusal.error, request_id_of(self.headers), self._asked)
        if self.expect_100_continue:
            self.transport.close()  # who waits to be told to go on will not send a body now

    def _end_refused(self) -> None:
        self._refused_at = self.loop.time()
        self._rest()

    def _give_up(self, error: ServiceError) -> None:
        """Say what is wrong with what came, of which no request can be made, and hang up."""
        self._last = True
        self._tell(error, request_id_of(()), _NOTHING)
        self.transport.close()

    def _tell(self, error: ServiceError, request_id: str, asked: Asked) -> None:
        start = perf_counter()
        notice = self.keeper.notice(error, self.server_headers)
        self.transport.write(notice.answer(request_id, last=self._last))
        alike = Alike(*asked, error.kind.status, error.reason, at_door=True)
        self.keeper.record.soon(alike, request_id, perf_counter() - start)

    def _stop_discarding(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
            self._discarding = None

    def _is_too_soon(self) -> bool:
        """Tell whether the next request has to wait because the last one was refused just now."""
        refused_at, self._refused_at = self._refused_at, None
        if refused_at is None:
            return False
        now = self.loop.time()
        rested = now - refused_at
        if rested >= self._asked_to_wait:
            return False
        pace = self.keeper.haste if rested < _HASTE_SECONDS else self.keeper.pace
        wait = pace.wait(now, self._asked_to_wait - rested)
        if wait <= _SHORTEST_WAIT or self.keeper.host.is_stopping():
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
