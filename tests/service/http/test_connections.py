"""Connections: what is no request, what is closed, what is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hasse.service.core.readiness import Phase
from hasse.service.http.connection import MAX_PIPELINED
from hasse.service.http.middleware import CLIENT_GONE
from hasse.service.schemas import Problem
from tests.service.http.connection import SEARCH, Client, respond, run, serving

LARGE = 30_000_000  # more than the system takes for a client that reads nothing
GET = "GET /images HTTP/1.1\nHost: a\n\n"
HEAD, BODY = SEARCH.split("\n\n")
UPGRADE = "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAEA\nHost"


@pytest.mark.parametrize("pause", [0, 0.02])
@pytest.mark.parametrize("full", [True, False])
def test_upgrade_to_h2c_is_answered_as_plain_http_with_its_body(pause: float, full: bool) -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            for _ in range(2):  # it changes nothing for the next request
                server.admission.is_full = full
                head = HEAD.replace("Host", UPGRADE)
                for part in (head[:20], f"{head[20:]}\n\n", BODY):
                    client.send(part)
                    await asyncio.sleep(pause)
                assert (await client.receive())[0] == (429 if full else 200)
                server.admission.is_full = False
                client.send(SEARCH)
                assert (await client.receive())[0] == 200
            assert set(server.inside) == {"POST /search/images hello"}
            assert len(server.inside) == (2 if full else 4)

    run(main)


@pytest.mark.parametrize(
    "text",
    [
        "hello\n\n",
        "\x16\x03\x01\n\n",
        "GET http://a HTTP/1.1\nHost: a\n\n",
        "CONNECT a:80 HTTP/1.1\nHost: a\n\nhello",
        "CONNECT /search/images HTTP/1.1\nHost: a\n\nhello",
        "POST /search/images HTTP/1.1\nContent-Length: 5\nContent-Length: 6\n\nhello",
        "POST /images HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nnonsense\n",
    ],
)
def test_bytes_that_are_no_request_get_400_and_are_counted(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            client.send(text)
            status, headers, body = await client.receive()
            found = Problem.model_validate_json(body)
            assert (status, found.reason) == (400, "malformed")
            assert headers["content-type"] == "application/problem+json"
            assert headers["x-request-id"] == found.request_id
            assert headers["connection"] == "close"
            assert await client.is_closed()
            assert server.inside == []
            metrics = server.services.metrics.text().decode()
            assert 'hasse_requests_total{route="other",status="400"} 1.0' in metrics
            assert 'hasse_rejections_total{reason="malformed"} 1.0' in metrics

    run(main)
    assert "Invalid HTTP" not in caplog.text


@pytest.mark.parametrize(
    "begun",
    [
        "GET /",
        "GET / HTTP/1.1\nX: ",
        "GET / HTTP/1.1\nX: a\n",
        "POST /images HTTP/1.1\nTransfer-Encoding: chunked\n\n1\nx\n0\nX: ",
    ],
)
def test_head_without_an_end_gets_431(begun: str) -> None:
    async def main() -> None:
        async with serving() as (_, connect):
            client = await connect()
            client.send(begun)
            more = "X: b\n" if begun.endswith("a\n") else "a" * 5
            receiving = asyncio.create_task(client.receive())
            while not receiving.done():
                client.send(more * 1000)
                await asyncio.sleep(0.005)
            status, headers, body = await receiving
            assert (status, headers["connection"]) == (431, "close")
            assert Problem.model_validate_json(body).reason == "head_too_large"

    run(main)


def test_target_that_is_too_long_and_comes_whole_gets_431() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            server.admission.is_full = False
            client = await connect()
            client.send(f"GET /diagram?caption={'a' * 65_536} HTTP/1.1\nHost: a\n\n")
            status, headers, _ = await client.receive()
            assert (status, headers["connection"]) == (431, "close")

    run(main)


def test_long_body_in_chunks_is_no_head() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            server.admission.is_full = False
            client = await connect()
            client.send("POST /images HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n")
            for _ in range(20):
                client.send("2710\n" + "x" * 10_000 + "\n")
                await client.writer.drain()
            client.send("0\nX: a\n\n")
            assert (await client.receive())[0] == 200
            assert len(server.inside[0]) > 200_000

    run(main)


@pytest.mark.parametrize("begun", ["", "GET /images", "GET /images HTTP/1.1\nHost: a\n"])
def test_head_that_does_not_come_closes_the_connection(begun: str) -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.4) as (server, connect):
            client = await connect()
            client.send(begun)
            await asyncio.sleep(0.25)
            if begun:
                client.send("G")  # a little more makes no head of it
            assert await client.is_closed()
            client = await connect()
            await asyncio.sleep(0.25)
            client.send("GET /images HTTP/1.1\n")
            await asyncio.sleep(0.25)  # the time of the head begins with it
            client.send("Host: a\n\n")
            assert (await client.receive())[0] == 200
            assert server.inside == ["GET /images"]

    run(main)


def test_connection_is_closed_when_it_was_idle_long_enough_and_not_before() -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.4) as (server, connect):
            client = await connect()
            for full in (True, False, True):
                server.admission.is_full = full
                client.send(SEARCH)
                assert (await client.receive())[0] == (429 if full else 200)
                await asyncio.sleep(0.25)
            assert await client.is_closed()

    run(main)


def test_body_that_goes_on_after_its_answer_keeps_the_connection_until_it_stops() -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.4) as (server, connect):

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                await respond(send, 401)

            server.answer = answer
            client = await connect()
            client.send("POST /images HTTP/1.1\nHost: a\nContent-Length: 1000\n\n")
            assert (await client.receive())[0] == 401
            for _ in range(3):
                await asyncio.sleep(0.25)
                client.send("x")
            assert not client.reader.at_eof()
            assert await client.is_closed()

    run(main)


def test_answer_may_take_longer_than_a_connection_may_be_idle() -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.1) as (server, connect):

            async def slowly(scope: Any, receive: Any, send: Any) -> None:
                await asyncio.sleep(0.3)
                await respond(send, 200)

            server.answer = slowly
            client = await connect()
            client.send("GET /0 HTTP/1.1\nHost: a\n\nGET /1 HTTP/1.1\nHost: a\n\nGET /2")
            for _ in range(2):
                assert (await client.receive())[0] == 200
            assert await client.is_closed()

    run(main)


@pytest.mark.parametrize("asked", [1, 2, 3])
@pytest.mark.parametrize("answered", [0, 1])
def test_client_that_leaves_cancels_its_work_and_begins_no_more(asked: int, answered: int) -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            begun: list[str] = []
            left: list[tuple[str, ...]] = []

            async def slowly(scope: Any, receive: Any, send: Any) -> None:
                begun.append(scope["path"])
                await receive()
                if len(begun) > answered:
                    try:
                        await asyncio.sleep(30)
                    except asyncio.CancelledError as error:
                        left.append(error.args)
                        return
                await respond(send, 200)

            server.answer = slowly
            client: Client = await connect()
            client.send("".join(f"GET /{at} HTTP/1.1\nHost: a\n\n" for at in range(asked + 1)))
            for _ in range(answered):
                assert (await client.receive())[0] == 200
            while len(begun) <= answered:
                await asyncio.sleep(0.001)
            client.writer.close()
            while not left:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            assert begun == [f"/{at}" for at in range(answered + 1)]
            assert left == [(CLIENT_GONE,)]

    run(main)


async def send_large(send: Any, *headers: tuple[bytes, bytes]) -> None:
    sized = (b"content-length", b"%d" % LARGE)
    start = {"type": "http.response.start", "status": 200, "headers": [sized, *headers]}
    await send(start)
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.mark.parametrize("keeps_open", [True, False])
def test_client_that_reads_nothing_of_a_whole_answer_is_closed(keeps_open: bool) -> None:
    async def main() -> None:
        async with serving(idle_seconds=10, write_seconds=30) as (server, connect):

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                await send_large(send, *([] if keeps_open else [(b"connection", b"close")]))

            server.answer = answer
            client = await connect()
            client.read_nothing()
            client.send(GET)
            await asyncio.sleep(25)
            assert server.state.connections
            await asyncio.sleep(20)
            assert not server.state.connections

    run(main)


def test_answer_that_nobody_reads_is_given_up() -> None:
    async def main() -> None:
        async with serving(write_seconds=30) as (server, connect):
            ended: list[tuple[Any, ...]] = []

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                start = {"type": "http.response.start", "status": 200, "headers": []}
                await send(start)
                try:
                    for _ in range(LARGE // 65_536):
                        piece = {"body": bytes(65_536), "more_body": True}
                        await send({"type": "http.response.body", **piece})
                except asyncio.CancelledError as error:
                    ended.append(error.args)

            server.answer = answer
            client = await connect()
            client.read_nothing()
            client.send(GET)
            await asyncio.sleep(40)
            assert ended == [(CLIENT_GONE,)]
            assert not server.state.connections

    run(main)


def test_client_that_reads_slowly_gets_its_whole_answer() -> None:
    async def main() -> None:
        async with serving(write_seconds=30) as (server, connect):

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                await send_large(send, (b"connection", b"close"))

            server.answer = answer
            client = await connect()
            client.send(GET)
            received = 0
            while more := await client.reader.read(LARGE):
                received += len(more)
                if received // 10_000_000 > (received - len(more)) // 10_000_000:
                    client.read_nothing()
                    await asyncio.sleep(25)
                    transport: Any = client.writer.transport
                    transport.resume_reading()
            assert received > LARGE

    run(main)


def test_service_that_stops_waits_less_for_clients_that_read_nothing() -> None:
    async def main() -> None:
        async with serving(write_seconds=300, shutdown_seconds=10) as (server, connect):

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                await send_large(send)

            server.answer = answer
            client = await connect()
            client.read_nothing()
            client.send(GET)
            await asyncio.sleep(1)
            server.services.readiness.phase = Phase.STOPPING
            (connection,) = server.connections
            connection.shutdown()
            await asyncio.sleep(6)
            assert not server.state.connections

    run(main)


def test_pipeline_is_answered_up_to_a_bound_and_closed() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            client.send(GET * 1000)
            for _ in range(MAX_PIPELINED + 1):
                status, headers, _ = await client.receive()
                assert status == 200
            assert headers["connection"] == "close"
            assert await client.is_closed()
            assert len(server.inside) == MAX_PIPELINED + 1

    run(main)


def test_pipeline_of_refused_searches_that_nobody_reads_holds_little_and_is_closed() -> None:
    async def main() -> None:
        async with serving(write_seconds=30) as (server, connect):
            client = await connect()
            client.read_nothing()
            for _ in range(60):
                client.send(SEARCH * 1000)
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            (connection,) = server.connections
            assert connection.transport.get_write_buffer_size() < 500_000
            await asyncio.sleep(40)
            assert not server.state.connections

    run(main)


def test_body_that_drips_on_after_its_answer_closes_the_connection() -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.4, body_seconds=2) as (server, connect):

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                await respond(send, 200)

            server.answer = answer
            client = await connect()
            client.send("POST /images HTTP/1.1\nHost: a\nContent-Length: 1000\n\n")
            assert (await client.receive())[0] == 200
            for _ in range(20):
                await asyncio.sleep(0.25)
                client.send("x")
            assert not server.state.connections

    run(main)
