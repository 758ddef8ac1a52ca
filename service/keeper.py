"""What all connections of one service share: what they know of those who are refused.

Thousands of clients may be refused in a second, beside those who are answered, and what one of
them gets must cost the least. So a request like one that was refused before, by its head and its
length, needs no parser; and those that come within some milliseconds are told together, in one
go in which neither the code nor the data of others' work comes between.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.errors import MEDIA_TYPE, ServiceError, problem_body
from service.http.middleware import SECURITY_HEADERS, Alike, Record, request_id_of
from service.pace import Pace, Turns

Headers = list[tuple[bytes, bytes]]
IdHeader = tuple[tuple[bytes, bytes], ...]  # none, or one
_NO_ID: IdHeader = ()

# For so long who is refused may have to wait for others who are told the same.
_TOGETHER_SECONDS = 0.01
# Heads of requests that are remembered, and the bytes of one, at most.
_HEADS, _HEAD_BYTES = 1_024, 2_048
_END = b"\r\n\r\n"  # of a head
_ID = b"x-request-id"
# The line of a head that gives a request an id.
_GIVEN_ID = re.compile(rb"\r\nx-request-id:([^\r\n]*)", re.IGNORECASE)
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

    def full(self) -> ServiceError | None:
        """Return what all are refused with that may be refused, if they would be now."""

    def stands_in_line(self, data: bytes, turn: Callable[[], None]) -> bool:
        """Tell whether a request that begins so has to wait; `turn` is called when it need not."""

    def leaves_line(self, turn: Callable[[], None]) -> None:
        """Forget a request that waits."""

    def is_stopping(self) -> bool:
        """Tell whether each answer is the last on its connection."""


class Visitor(Protocol):
    """A connection as who refuses its request sees it."""

    @property
    def server_headers(self) -> Headers:
        """What each answer says of the server and of the time."""

    def told(self, answer: bytes, wait: int) -> None:
        """Send an answer that asks to wait for so many seconds."""


class Asked(NamedTuple):
    """What the lines of a refused request, and its place in the metrics, say of it."""

    method: str
    route: str
    path: str


class Known(NamedTuple):
    """What is known of a request by its head, if its body is as long as that says."""

    length: int
    asked: Asked


class Notice(NamedTuple):
    """What all are told who are refused for one reason; only the id of the request differs."""

    head: bytes
    before: bytes  # the body up to the id of the request
    after: bytes
    server_headers: Headers  # that `head` has; the server makes others each second

    def answer(self, request_id: str, *, last: bool) -> bytes:
        """Return the answer to one request, with which a connection ends if it is the `last`."""
        sent = request_id.encode()
        close = b"connection: close\r\n" if last else b""
        length = len(self.before) + len(sent) + len(self.after)
        own = b"%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (close, sent, length)
        return b"".join((self.head, own, self.before, sent, self.after))


@dataclass(slots=True)
class Keeper:
    """Tells those who are refused so, and remembers what they asked.

    Attributes:
        host: says who is let in.
        record: told of each refusal.
        pace: how long a client waits that was refused and asks again before `Retry-After`.
        haste: likewise one that asks again at once.
        turns: calls those that wait, each in its turn.
    """

    host: Host
    record: Record
    pace: Pace
    haste: Pace
    turns: Turns = field(default_factory=Turns)
    _notices: dict[tuple[str, int | None], Notice] = field(default_factory=dict)
    _known: dict[bytes, Known] = field(default_factory=dict)
    # Who was refused and was not told yet, what they asked, with which header for its id, if any,
    # and when, by `perf_counter`.
    _untold: list[tuple[Visitor, Asked, IdHeader, float]] = field(default_factory=list)
    _full: ServiceError | None = None  # what those are told who come now and are told together

    def remember(self, data: bytes, headers: Headers, asked: Asked) -> None:
        """Keep what a parser made of the head of a request that `data` is, the whole of it.

        Thousands of requests in a second have few heads between them, but for the ids that clients
        or a proxy may give them.
        """
        head, _, body = data.partition(_END)
        head, _ = _without_id(head)
        given = dict(headers)
        length = int(given.get(b"content-length", b"0"))
        odd = b"transfer-encoding" in given or sum(name == _ID for name, _ in headers) > 1
        if odd or length != len(body) or len(head) > _HEAD_BYTES:
            return
        if len(self._known) >= _HEADS:
            self._known.clear()
        self._known[head] = Known(length, asked)

    def refuses(self, data: bytes, visitor: Visitor) -> bool:
        """Tell whether a request is refused for what is known of it; `visitor` is told soon."""
        head, _, body = data.partition(_END)
        known, id_header = self._known.get(head), _NO_ID
        if known is None:
            head, id_header = _without_id(head)
            known = self._known.get(head)
        if known is None or known.length != len(body):
            return False
        if self._full is None:
            if self.host.is_stopping():
                return False
            self._full = self.host.full()
            if self._full is None:
                return False
            asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self.tell)
        self._untold.append((visitor, known.asked, id_header, perf_counter()))
        return True

    def tell(self) -> None:
        """Tell all who were refused and do not know it yet."""
        error, self._full = self._full, None
        untold, self._untold = self._untold, []
        if error is None:
            return
        now, clock = perf_counter(), time()
        notice = self.notice(error, untold[0][0].server_headers)
        wait = error.retry_after or 0
        each = defaultdict[Asked, list[tuple[float, str, float]]](list)
        for visitor, asked, id_header, came in untold:
            request_id = request_id_of(id_header)
            visitor.told(notice.answer(request_id, last=False), wait)
            each[asked].append((clock, request_id, now - came))
        for asked, rows in each.items():
            alike = Alike(*asked, error.kind.status, error.reason, at_door=True)
            self.record.all_soon(alike, rows)

    def notice(self, error: ServiceError, server_headers: Headers) -> Notice:
        """Return what an error is answered with; it is put together once in a second."""
        said = (error.detail, error.retry_after)
        found = self._notices.get(said)
        if found is None or found.server_headers is not server_headers:
            found = self._notices[said] = _notice(error, server_headers)
        return found


def _without_id(head: bytes) -> tuple[bytes, IdHeader]:
    """Return a head without the line that gives it an id, and that as a header."""
    line = _GIVEN_ID.search(head)
    if line is None:
        return head, _NO_ID
    return head[: line.start()] + head[line.end() :], ((_ID, line[1].strip(b" \t")),)


def _notice(error: ServiceError, server_headers: Headers) -> Notice:
    head = STATUS_LINE[error.kind.status] + _HEAD
    head += b"".join(b"%b: %b\r\n" % pair for pair in server_headers)
    if error.retry_after is not None:
        head += b"retry-after: %d\r\n" % error.retry_after
    before, name, after = problem_body(error, "").partition(b'"request_id": "')
    return Notice(head, before + name, after, server_headers)
