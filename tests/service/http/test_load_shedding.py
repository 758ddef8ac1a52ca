"""What is refused when the service is full: at the head of a request, before its body."""

from __future__ import annotations

import io
import json

import pytest

from hasse.service.core.readiness import Phase
from hasse.service.schemas import Problem
from hasse.service.telemetry import logs
from tests.service.http.connection import SEARCH, run, serving

HEAD, BODY = SEARCH.split("\n\n")


def test_full_search_is_refused_as_a_problem_with_all_headers_and_counted() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            client.send(SEARCH.replace("Host", "X-Request-ID: mine\nHost"))
            status, headers, body = await client.receive()
            found = Problem.model_validate_json(body.decode("ascii"))
            assert (status, found.reason, found.request_id) == (429, "busy", "mine")
            assert headers["content-type"] == "application/problem+json"
            assert headers["retry-after"] == "3"
            assert headers["cache-control"] == "no-store"
            assert headers["x-request-id"] == "mine"
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert server.inside == []
            text = server.services.metrics.text().decode()
            assert 'hasse_requests_total{route="/search/images",status="429"} 1.0' in text
            assert 'hasse_rejections_total{reason="busy"} 1.0' in text
            assert "hasse_request_seconds_count{" not in text, "it was not let in"

    run(main)


def test_full_search_is_told_the_time_and_when_to_come_back_each_time() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            for date, wait in (("now", 3), ("later", 3), ("later", 7)):
                server.state.default_headers = [(b"date", date.encode())]
                server.admission.retry_after = wait
                client.send(SEARCH)
                status, headers, _ = await client.receive()
                assert (status, headers["date"]) == (429, date)
                assert headers["retry-after"] == str(wait)

    run(main)


def test_full_get_is_counted_by_its_route_and_logged_by_its_path_without_the_query() -> None:
    async def main() -> None:
        out = io.StringIO()
        logs.configure("json", stream=out)
        async with serving() as (server, connect):
            client = await connect()
            client.send("GET /images/7/diagram?key=secret HTTP/1.1\nHost: a\n\n")
            assert (await client.receive())[0] == 429
            logs.flush(60)
            (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
            assert (line["method"], line["path"]) == ("GET", "/images/7/diagram")
            assert (line["status"], line["reason"], len(line["id"])) == (429, "busy", 16)
            text = server.services.metrics.text().decode()
            assert 'route="/images/{image_id}/diagram"' in text
            assert "/images/7" not in text

    run(main)


def test_refused_connection_serves_its_next_requests() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            for full in (True, True, False, True):
                server.admission.is_full = full
                client.send(SEARCH)
                assert (await client.receive())[0] == (429 if full else 200)
            client.send(SEARCH * 2)
            assert [(await client.receive())[0] for _ in range(2)] == [429, 429]
            assert server.inside == ["POST /search/images hello"]

    run(main)


def test_full_service_refuses_only_searches() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            client.send("GET /search/images HTTP/1.1\nHost: a\n\n")
            assert (await client.receive())[0] == 200
            client.send(SEARCH.replace("/search/images", "/images"))
            assert (await client.receive())[0] == 200
            assert len(server.inside) == 2

    run(main)


def test_refused_body_that_comes_late_is_dropped() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            client = await connect()
            client.send("POST /search/images HTTP/1.1\nHost: a\nContent-Length: 100000\n\n")
            assert (await client.receive())[0] == 429
            server.admission.is_full = False
            for _ in range(100):
                client.send("x" * 1000)
                await client.writer.drain()
            client.send(SEARCH)
            assert (await client.receive())[0] == 200
            assert server.inside == ["POST /search/images hello"]

    run(main)


def test_refused_body_that_does_not_come_closes_the_connection() -> None:
    async def main() -> None:
        async with serving(idle_seconds=0.5) as (server, connect):
            whole, half = await connect(), await connect()
            for client, sent in ((whole, BODY), (half, BODY[:2])):
                client.send(f"{HEAD}\n\n")
                assert (await client.receive())[0] == 429
                client.send(sent)
            server.admission.is_full = False
            whole.send(SEARCH)
            assert (await whole.receive())[0] == 200
            assert await half.is_closed()

    run(main)


def test_full_search_that_awaits_100_continue_is_refused_and_closed() -> None:
    async def main() -> None:
        async with serving() as (_, connect):
            client = await connect()
            client.send(
                "POST /search/images HTTP/1.1\nHost: a\nExpect: 100-continue\n"
                "Content-Length: 100000\n\n"
            )
            status, headers, _ = await client.receive()
            assert (status, headers["connection"]) == (429, "close")
            assert await client.is_closed()

    run(main)


def test_search_that_awaits_100_continue_is_told_to_go_on_when_let_in() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            server.admission.is_full = False
            client = await connect()
            client.send(HEAD.replace("Host", "Expect: 100-continue\nHost") + "\n\n")
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(BODY)
            assert (await client.receive())[0] == 200
            server.admission.is_full = True
            client.send(SEARCH)  # which awaits nothing
            status, headers, _ = await client.receive()
            assert (status, "connection" in headers) == (429, False)

    run(main)


@pytest.mark.parametrize(("version", "more"), [("1.0", ""), ("1.1", "Connection: close\n")])
def test_refused_client_that_wants_one_answer_gets_it_whole(version: str, more: str) -> None:
    async def main() -> None:
        async with serving() as (_, connect):
            client = await connect()
            client.send(f"POST /search/images HTTP/{version}\n{more}Content-Length: 5\n\n")
            status, headers, _ = await client.receive()
            assert (status, headers["connection"]) == (429, "close")
            client.send("hello")
            assert await client.is_closed()

    run(main)


def test_refusal_while_stopping_closes_the_connection() -> None:
    async def main() -> None:
        async with serving() as (server, connect):
            server.services.readiness.phase = Phase.STOPPING
            client = await connect()
            client.send(SEARCH)
            status, headers, _ = await client.receive()
            assert (status, headers["connection"]) == (429, "close")
            assert await client.is_closed()

    run(main)
