"""A client that costs little: one connection kept open, one request on it at a time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from time import perf_counter
from typing import Self, cast


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and how long it took, in seconds."""

    status: int
    head: bytes
    body: bytes
    seconds: float

    def timing(self) -> dict[str, float]:
        """Return the stages that the service measured, in seconds."""
        for line in self.head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"server-timing":
                stages = (stage.partition(";dur=") for stage in value.decode().split(","))
                return {stage.strip(): float(ms) / 1e3 for stage, _, ms in stages}
        return {}


def post(path: str, content_type: str, body: bytes) -> bytes:
    """Return the bytes of a POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def question(path: str, **fields: object) -> bytes:
    """Return the bytes of a question in JSON."""
    return post(path, "application/json", json.dumps(fields).encode())


def search(caption: str, k: int = 10, mode: str = "certified", evidence: str = "any") -> bytes:
    """Return the bytes of a search for the images that a caption is true of."""
    return question("/search/images", caption=caption, k=k, mode=mode, evidence=evidence)


def form(path: str, picture: bytes, **fields: str) -> bytes:
    """Return the bytes of a form with a picture."""
    parts = [(b'image"; filename="a', picture)]
    parts += [(name.encode(), value.encode()) for name, value in fields.items()]
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % part for part in parts
    )
    return post(path, "multipart/form-data; boundary=x", body + b"--x--\r\n")


def get(path: str) -> bytes:
    """Return the bytes of a GET."""
    return b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()


class Connection(asyncio.Protocol):
    """One connection to a service.

    A service that ends a connection in the middle of an answer, or before one, makes `ask` raise
    ConnectionResetError.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect; raises OSError where nobody listens."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port)
        return connection

    async def ask(self, request: bytes) -> Reply:
        """Send a request and wait for the whole answer.

        Raises:
            ConnectionResetError: the service closed the connection instead.
        """
        if self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        start = perf_counter()
        self._transport.write(request)
        status, head, body = await self._answer
        return Reply(status, head, body, perf_counter() - start)

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None

    async def close(self) -> None:
        """Leave, also in the middle of an answer; return when the socket is closed."""
        if self._transport is not None:
            self._transport.close()
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request under way."""
        self._transport = None
        self._lost.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("no whole answer came"))

    def data_received(self, data: bytes) -> None:
        """Take in a part of an answer."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end])
        stop = end + 4 + _length(head)
        if len(self._received) < stop:
            return
        body = bytes(self._received[end + 4 : stop])
        del self._received[:stop]
        if b"\nconnection: close" in head.lower() and self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), head, body))


def _length(head: bytes) -> int:
    at = head.lower().find(b"\ncontent-length:")
    return int(head[at + 16 :].partition(b"\r")[0]) if at >= 0 else 0
