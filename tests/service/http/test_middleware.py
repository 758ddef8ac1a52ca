"""What the middleware does to answers, behind the protocol and a client of raw bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hasse.service.http.middleware import RequestMiddleware
from hasse.service.schemas import Problem
from tests.service.http.connection import run, serving

LARGE = 30_000_000  # more than the system takes for a client that reads nothing
GET = "GET /images HTTP/1.1\nHost: localhost\n\n"
BODY = bytes(range(256)) * (LARGE // 256)


async def large(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


def test_long_answer_comes_whole_and_holds_little() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            server.answer = RequestMiddleware(large, server.services)
            client = await connect()
            client.send(GET)
            status, _, body = await client.receive()
            assert status == 200
            assert body == BODY
            client.read_nothing()
            client.send(GET)
            await asyncio.sleep(1)
            (connection,) = server.connections
            assert connection.transport.get_write_buffer_size() < 300_000

    run(main)


def test_long_answers_that_nobody_reads_are_bounded_together() -> None:
    async def main() -> None:
        limits = {"buffered_bytes": int(2.5 * LARGE), "write_seconds": 30}
        async with serving(**limits) as (server, connect):
            server.answer = RequestMiddleware(large, server.services)
            for _ in range(2):
                client = await connect()
                client.read_nothing()
                client.send(GET)
            await asyncio.sleep(1)
            other = await connect()
            other.send(GET)
            status, headers, body = await other.receive()
            assert (status, headers["retry-after"]) == (429, "1")
            assert Problem.model_validate_json(body).reason == "busy"
            await asyncio.sleep(40)  # those that read nothing are gone
            other = await connect()
            other.send(GET)
            assert (await other.receive())[0] == 200

    run(main)


def test_refusals_of_clients_that_ask_again_at_once_leave_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> None:
        async with serving() as (server, _):
            middleware = RequestMiddleware(large, server.services)
            with monkeypatch.context() as patched:
                patched.setattr("hasse.service.http.middleware.perf_counter", lambda: 7.0)
                patched.setattr("hasse.service.http.middleware.asyncio.sleep", sleep)
                for _ in range(300):
                    await middleware.pace_refusal()

    run(main)
    assert len(waits) == 299, "the first leaves at once"
    assert waits == sorted(waits)
    assert waits[0] < 0.02
    assert waits[-1] == 1.0, "no refusal is held for longer than Retry-After asks for"
