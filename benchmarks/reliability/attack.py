"""What do attacks by strangers do to everybody else, and to the memory of the service?

    python -m benchmarks.reliability.attack FOLDER [--seconds 8] [--rows 12000]

Starts a service, and attacks it in one way after another by clients in a process of their own.
Meanwhile it asks `/livez`, `/readyz` and plain searches, and reads the memory of the service
before, at its highest and after. FOLDER keeps the collection for the next run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Connection, form, get, post, question, search
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, parser_of
from hasse.service.settings import Settings

LIVEZ_SECONDS = 0.1
STOP_SECONDS = 10.0
SLACK_MB = 300.0
REST_SECONDS = 1.0  # after an attack, for the service to give back what it freed
_PAUSE = 0.05
_CLIENTS = 64

Client: TypeAlias = Callable[[str, int, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    """Clients that all do the same."""

    name: str
    clients: int
    client: Client


@dataclass(slots=True)
class Seen:
    """What others met during an attack."""

    livez: list[float] = field(default_factory=list)
    readyz: Counter[int] = field(default_factory=Counter)
    searches: Counter[int] = field(default_factory=Counter)
    slowest_search: float = 0.0
    before: float = 0.0
    highest: float = 0.0
    after: float = 0.0


def asks(*requests: bytes) -> Client:
    """Return a client that asks again and again."""

    async def client(host: str, port: int, until: float) -> None:
        at = 0
        while time.monotonic() < until:
            with suppress(OSError):
                connection = await Connection.open(host, port)
                while connection.is_open and time.monotonic() < until:
                    await connection.ask(requests[at % len(requests)])
                    at += 1
            await asyncio.sleep(_PAUSE)

    return client


def never_reads(request: bytes, times: int = 1) -> Client:
    """Return a client that sends requests and reads no answer."""

    async def client(host: str, port: int, until: float) -> None:
        loop = asyncio.get_running_loop()
        while time.monotonic() < until:
            with socket.socket() as mine, suppress(OSError, TimeoutError):
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                mine.setblocking(False)
                await loop.sock_connect(mine, (host, port))
                async with asyncio.timeout_at(loop.time() + until - time.monotonic()):
                    await loop.sock_sendall(mine, request * times)
                    await asyncio.sleep(until)
            await asyncio.sleep(_PAUSE)

    return client


def drips(begun: bytes, more: bytes) -> Client:
    """Return a client that begins a request and goes on by a few bytes a second."""

    async def client(host: str, port: int, until: float) -> None:
        while time.monotonic() < until:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(host, port)
                writer.write(begun)
                while time.monotonic() < until and not writer.is_closing():
                    await asyncio.sleep(0.5)
                    writer.write(more)
                    await writer.drain()
                writer.close()
            await asyncio.sleep(_PAUSE)

    return client


def _picture(pixels: int, kind: str) -> bytes:
    side = int(pixels**0.5)
    out = BytesIO()
    Image.new("RGB", (side, side), (90, 120, 60)).save(out, kind)
    return form("/search/captions", out.getvalue())


def attacks() -> list[Attack]:
    """Return all attacks."""
    texts = captions(60)
    k = Settings().k_maximum
    parts = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 100_000
    long_get = get("/docs/swagger-ui-bundle.js")
    upload = b"POST /search/captions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
    upload += b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    chunked = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [
        Attack("nothing", 0, asks(b"")),
        Attack(
            "all of 16 parts, k 1,000",
            _CLIENTS,
            asks(question("/search/all_of", all_of=texts[:16], k=k)),
        ),
        Attack(
            "common to 16 images, k 1,000",
            _CLIENTS,
            asks(question("/search/common", common=list(range(16)), k=k, distinct=False)),
        ),
        Attack(
            "32 captions together, k 100",
            _CLIENTS,
            asks(question("/search/images/batch", captions=texts[:32], k=100)),
        ),
        Attack("images, k 1,000", _CLIENTS, asks(*(search(text, k) for text in texts))),
        Attack("embeddings of 256 texts", _CLIENTS, asks(question("/embed", texts=texts[:256]))),
        Attack("pages of 1,000 hits", _CLIENTS, asks(get(f"/?q=a+dog&k={k}"))),
        Attack("diagrams", _CLIENTS, asks(get("/diagram?caption=a+dog+runs"))),
        Attack("pictures of 49 megapixels", 16, asks(_picture(49_000_000, "PNG"))),
        Attack("JPEG 2000 of 16 megapixels", 4, asks(_picture(16_000_000, "JPEG2000"))),
        Attack(
            "forms of 100,000 parts",
            8,
            asks(post("/search/captions", "multipart/form-data; boundary=b", parts + b"--b--\r\n")),
        ),
        Attack("long answers that nobody reads", 400, never_reads(long_get)),
        Attack("pipelines that nobody reads", 100, never_reads(get("/openapi.json"), 2000)),
        Attack("idle connections", 900, drips(b"", b"")),
        Attack("heads that drip", 300, drips(b"GET /livez HTTP/1.1\r\nHost: a\r\n", b"a: b\r\n")),
        Attack("bodies that drip", 200, drips(upload, b"x")),
        Attack("bodies that drip behind an answer", 300, drips(chunked, b"1\r\nx\r\n")),
    ]


def _run_clients(attack: Attack, host: str, port: int, seconds: float) -> None:
    os.nice(10)  # what is measured is the service, on cores that it shares with them
    until = time.monotonic() + seconds

    async def main() -> None:
        await asyncio.gather(*(attack.client(host, port, until) for _ in range(attack.clients)))

    asyncio.run(main())


def seen_by_others(service: Served, attack: Attack, seconds: float) -> Seen:
    """Attack, and ask meanwhile as others do."""
    seen = Seen(before=service.usage().own_megabytes)
    clients = multiprocessing.get_context("fork").Process(
        target=_run_clients, args=(attack, service.host, service.port, seconds), daemon=True
    )
    clients.start()

    async def others() -> None:
        until = time.monotonic() + seconds

        async def ask(request: bytes) -> tuple[int, float]:
            connection = await Connection.open(service.host, service.port)
            try:
                reply = await connection.ask(request)
                return reply.status, reply.seconds
            except ConnectionError:
                return 0, time.monotonic() - until + seconds
            finally:
                await connection.close()

        async def livez() -> None:
            while time.monotonic() < until:
                seen.livez.append((await ask(get("/livez")))[1])
                seen.highest = max(seen.highest, service.usage().own_megabytes)
                await asyncio.sleep(_PAUSE)

        async def readyz() -> None:
            while time.monotonic() < until:
                seen.readyz[(await ask(get("/readyz")))[0]] += 1
                await asyncio.sleep(0.5)

        async def plain() -> None:
            while time.monotonic() < until:
                status, took = await ask(search("a dog", 3))
                seen.searches[status] += 1
                seen.slowest_search = max(seen.slowest_search, took)
                await asyncio.sleep(0.1)

        await asyncio.gather(livez(), readyz(), plain())

    asyncio.run(others())
    clients.join(30)
    clients.kill()
    time.sleep(REST_SECONDS)
    seen.after = service.usage().own_megabytes
    return seen


def line(attack: Attack, seen: Seen, deadline: float) -> Line:
    """Return what one attack did."""
    kept = (
        max(seen.livez) <= LIVEZ_SECONDS
        and set(seen.readyz) == {200}
        and set(seen.searches) <= {200, 429}
        and seen.slowest_search <= deadline + 0.5
        and seen.after - seen.before <= SLACK_MB
    )
    ready = ", ".join(f"{count} x {status}" for status, count in sorted(seen.readyz.items()))
    found = ", ".join(f"{count} x {status}" for status, count in sorted(seen.searches.items()))
    return Line(
        f"{attack.clients} x {attack.name}" if attack.clients else attack.name,
        f"/livez {1e3 * max(seen.livez):.0f} ms; /readyz {ready}; searches {found}, "
        f"{seen.slowest_search:.2f} s; {seen.before:.0f}, {seen.highest:.0f}, {seen.after:.0f} MB",
        "",
        kept,
    )


def seconds_to_stop(service: Served, attack: Attack) -> float:
    """Return how long SIGTERM takes while an attack goes on."""
    clients = multiprocessing.get_context("fork").Process(
        target=_run_clients, args=(attack, service.host, service.port, 40.0), daemon=True
    )
    clients.start()
    time.sleep(3.0)
    start = time.monotonic()
    service.terminate()
    service.process.wait(60)
    clients.kill()
    return time.monotonic() - start


def main() -> None:
    """Attack and print."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--only", default="", help="part of the name of an attack")
    given = parser.parse_args()
    at = machine()
    index = collection(given.folder, given.rows)
    chosen = [attack for attack in attacks() if given.only in attack.name]
    deadline = Settings().deadline_seconds
    lines: Sequence[Line]
    with served(index) as service:
        lines = [
            line(attack, seen_by_others(service, attack, given.seconds), deadline)
            for attack in chosen
        ]
        unread = next(one for one in attacks() if one.name.startswith("long answers"))
        took = seconds_to_stop(service, unread)
    finish(
        f"Attacks of {given.seconds:g} s each: the slowest /livez, /readyz, plain searches and the "
        "slowest of them, memory before, at most and after",
        [
            *lines,
            Line(
                "SIGTERM with 400 clients that read nothing",
                f"{took:.1f} s",
                f"{STOP_SECONDS:g} s",
                took <= STOP_SECONDS,
            ),
        ],
        at,
    )


if __name__ == "__main__":
    main()
