"""A server with the protocol under test around a small application, and a client of raw bytes."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from hasse.service.app import SEARCH_ROUTES
from hasse.service.core.admission import Admission
from hasse.service.core.readiness import Readiness
from hasse.service.errors import ServiceError
from hasse.service.http.access import Access
from hasse.service.http.bodies import Bodies
from hasse.service.http.connection import Connection, connections_of
from hasse.service.http.hosts import Hosts
from hasse.service.http.services import Services
from hasse.service.questions.sample import Samples
from hasse.service.settings import Settings
from hasse.service.telemetry.metrics import Metrics

SEARCH = "POST /search/images HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello"


class Switch(Admission):
    """An admission that is full or not, as it is told."""

    is_full = True
    retry_after = 3

    def refusal(self) -> ServiceError | None:
        """Return the error while full."""
        if self.is_full:
            return ServiceError("busy", "there is no room", retry_after=self.retry_after)
        return None


@dataclass
class Server:
    """A service whose application is a function; it notes the requests that it lets in."""

    admission: Switch
    services: Services
    connections: list[Connection] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    answer: Callable[[Any, Any, Any], Awaitable[None]] | None = None
    state: ServerState = field(default_factory=ServerState)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 200 when the body is whole, or as `answer` does."""
        if self.answer is not None:
            await self.answer(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        self.inside.append(f"{scope['method']} {scope['path']} {body.decode()}".strip())
        await respond(send, 200)


@dataclass
class Client:
    """A client that can send a request in pieces."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, text: str) -> None:
        """Send text with line ends as HTTP has them."""
        self.writer.write(text.replace("\n", "\r\n").encode())

    async def receive(self) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of the next answer."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers, body

    def read_nothing(self) -> None:
        """Take no more bytes from the system than it has."""
        transport: Any = self.writer.transport
        transport.pause_reading()

    async def is_closed(self) -> bool:
        """Wait until the service has closed the connection."""
        return await self.reader.read() == b""


async def respond(send: Any, status: int) -> None:
    """Send an answer of two bytes."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"in"})


@asynccontextmanager
async def serving(
    idle_seconds: float = 60, **settings: Any
) -> AsyncIterator[tuple[Server, Callable[[], Awaitable[Client]]]]:
    """Serve while the block runs; yield the server and what connects a new client."""
    chosen = Settings(**settings)
    admission = Switch.of(chosen)
    assert isinstance(admission, Switch)
    services = Services(
        settings=chosen,
        admission=admission,
        rendering=Admission.one_by_one(chosen),
        metrics=Metrics(),
        readiness=Readiness(chosen),
        hosts=Hosts(chosen),
        access=Access(chosen),
        bodies=Bodies(chosen),
        samples=Samples(),
    )
    server = Server(admission, services)
    protocol = connections_of(services, SEARCH_ROUTES)
    config = uvicorn.Config(server.app, lifespan="off", interface="asgi3", log_config=None)
    config.timeout_keep_alive = idle_seconds  # type: ignore[assignment]

    def connection() -> Connection:
        made = protocol(config=config, server_state=server.state, app_state={})
        server.connections.append(made)
        return made

    listener = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    try:
        yield server, connect
    finally:
        for client in clients:
            client.writer.close()
        listener.close()
        await listener.wait_closed()
        while server.state.connections:
            await asyncio.sleep(0.001)


class Clock(selectors.DefaultSelector):
    """A clock that moves on to what is due next when nothing has come for a moment.

    However busy the machine is, no timer of a test ends too early or too late.
    """

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what has come; what is sent within a process comes at once."""
        found = super().select(timeout and min(timeout, 0.05))
        if timeout and not found:
            self.now += timeout
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop that goes by such a clock."""

    def __init__(self) -> None:
        self._clock = Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the time of the clock."""
        return self._clock.now


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test, whose sleeps and timeouts take no time."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())
