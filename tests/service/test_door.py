"""At the door: what is refused costs little, harms nobody, and waits its turn to ask again."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.door import Door, door
from service.errors import ServiceError
from service.http.disconnect import SCOPE, Departure
from service.http.middleware import Alike, Record
from service.keeper import Refusal
from service.pace import Pace
from service.runtime import logs
from service.runtime.metrics import Metrics
from service.schemas import Problem


@dataclass
class House:
    """A service that is full or not, and what it let in."""

    is_full: bool = True
    wait: int = 3
    stopping: bool = False
    places: bool = True
    line: list[Callable[[], None]] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    waited: list[float | None] = field(default_factory=list)
    called: list[bool] = field(default_factory=list)
    connections: list[Door] = field(default_factory=list)
    answer: Callable[[Any, Any, Any], Awaitable[None]] | None = None
    state: ServerState = field(default_factory=ServerState)
    metrics: Metrics = field(default_factory=Metrics)
    record: Record = field(init=False)

    def __post_init__(self) -> None:
        self.record = Record(self.metrics)

    def stands_in_line(self, data: bytes, turn: Callable[[], None]) -> bool:
        if self.places or not data.startswith(b"POST /search/images "):
            return False
        self.line.append(turn)
        return True

    def leaves_line(self, turn: Callable[[], None]) -> None:
        self.line.remove(turn)

    def is_stopping(self) -> bool:
        return self.stopping

    def refusal(self, method: bytes, target: bytes, *, called: bool) -> Refusal | None:
        self.called.append(called)
        searches = {
            (b"POST", b"/search/images"): "/search/images",
            (b"GET", b"/images/7/diagram"): "/images/{image_id}/diagram",
        }
        route = searches.get((method, target.partition(b"?")[0]))
        error = self.full()
        return None if error is None or route is None else Refusal(error, route)

    def full(self) -> ServiceError | None:
        if not self.is_full:
            return None
        return ServiceError("busy", "there is no room", retry_after=self.wait)

    async def app(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
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
        self.waited.append(scope.get("hasse.waited"))
        headers = [(b"content-length", b"2")]
        headers += [(b"connection", b"close")] if self.stopping else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"in"})


@asynccontextmanager
async def open_house(
    per_second: float = 1e9, keep_alive: float = 60
) -> AsyncIterator[tuple[House, Callable[[], Awaitable[Visitor]]]]:
    house = House()
    protocol = door(house, house.record, per_second)
    config = uvicorn.Config(house.app, lifespan="off", interface="asgi3", log_config=None)
    config.timeout_keep_alive = keep_alive  # type: ignore[assignment]

    def connection() -> Door:
        made = protocol(config=config, server_state=house.state, app_state={})
        house.connections.append(made)
        return made

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    visitors: list[Visitor] = []

    async def visit() -> Visitor:
        visitors.append(Visitor(*await asyncio.open_connection("127.0.0.1", port)))
        return visitors[-1]

    try:
        yield house, visit
    finally:
        for visitor in visitors:
            visitor.writer.close()
        server.close()
        await server.wait_closed()
        while house.state.connections:
            await asyncio.sleep(0.001)


@dataclass
class Visitor:
    """A client that can send a request in pieces."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def say(self, text: str) -> None:
        self.writer.write(text.replace("\n", "\r\n").encode())

    async def hear(self) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of the next answer."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers, body

    async def gone(self) -> bool:
        """Wait until the service has closed the connection."""
        return await self.reader.read() == b""


async def stand_in_line(house: House, visit: Callable[[], Awaitable[Visitor]]) -> Visitor:
    """Ask while there is room and no place, and wait until that was heard."""
    house.is_full, house.places = False, False
    visitor = await visit()
    visitor.say(ASK)
    await asyncio.sleep(0.05)
    return visitor


async def refused_twice(visit: Callable[[], Awaitable[Visitor]]) -> Visitor:
    """Be refused until the pace is kept, which it is from the second time on."""
    visitor = await visit()
    for _ in range(2):
        visitor.say(ASK)
        assert (await visitor.hear())[0] == 429
    return visitor


async def refused_and_untold(
    visit: Callable[[], Awaitable[Visitor]], monkeypatch: pytest.MonkeyPatch
) -> Visitor:
    """Be refused, and then once more without being told so for a minute."""
    visitor = await visit()
    visitor.say(ASK)
    assert (await visitor.hear())[0] == 429
    monkeypatch.setattr("service.keeper._TOGETHER_SECONDS", 60)
    visitor.say(ASK)
    await asyncio.sleep(0.05)
    return visitor


ASK = "POST /search/images HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello"
DRAW = "GET /images/7/diagram HTTP/1.1\nHost: a\n\n"


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


def test_the_head_of_an_answer_waits_for_its_body() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full = False
            begun, goes_on = asyncio.Event(), asyncio.Event()

            async def answer(scope: Any, receive: Any, send: Any) -> None:
                headers = [(b"content-length", b"4")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                begun.set()
                await goes_on.wait()
                await send({"type": "http.response.body", "body": b"body"})

            house.answer = answer
            visitor = await visit()
            visitor.say("GET / HTTP/1.1\nhost: x\n\n")
            await begun.wait()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(visitor.reader.readexactly(1), 0.05)
            goes_on.set()
            assert (await visitor.hear())[::2] == (200, b"body")

    run(main)


def test_a_refusal_is_a_guarded_problem_that_is_counted_and_runs_nothing() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say(ASK.replace("Host", "X-Request-ID: mine\nHost"))
            status, headers, body = await visitor.hear()
            found = Problem.model_validate_json(body)
            assert (status, found.reason, found.request_id) == (429, "busy", "mine")
            assert headers["content-type"] == "application/problem+json"
            assert headers["retry-after"] == "3"
            assert headers["cache-control"] == "no-store"
            assert headers["x-request-id"] == "mine"
            assert headers["x-content-type-options"] == "nosniff"
            assert house.inside == []
            house.record.settle()
            text = house.metrics.text().decode()
            assert 'hasse_requests_total{route="/search/images",status="429"} 1.0' in text
            assert 'hasse_rejections_total{reason="busy"} 1.0' in text

    run(main)


def test_each_refusal_says_what_time_it_is_and_when_to_come_back() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            now, later = ([(b"date", date)] for date in (b"now", b"later"))
            for house.state.default_headers, house.wait in ((now, 3), (later, 3), (later, 7)):
                visitor.say(ASK)
                status, headers, _ = await visitor.hear()
                date = house.state.default_headers[0][1].decode()
                assert (status, headers["date"]) == (429, date)
                assert headers["retry-after"] == str(house.wait)

    run(main)


def test_the_connection_of_a_refused_client_serves_its_next_request() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            for _ in range(3):
                visitor.say(ASK)
                assert (await visitor.hear())[0] == 429
            house.is_full = False
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 200
            house.is_full = True
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 429
            assert house.inside == ["POST /search/images hello"]

    run(main)


def test_a_request_like_one_that_was_refused_is_refused_without_a_parser() -> None:
    # Nobody is `called` by what is not parsed.
    async def main() -> None:
        async with open_house() as (house, visit):
            first, second = await visit(), await visit()
            ids = set[str]()
            for visitor in (first, first, second):
                visitor.say(ASK)
                status, headers, body = await visitor.hear()
                found = Problem.model_validate_json(body)
                assert (status, headers["retry-after"], found.reason) == (429, "3", "busy")
                assert found.request_id == headers["x-request-id"]
                ids.add(found.request_id)
            assert len(ids) == 3
            assert house.called == [False]
            house.record.settle()
            text = house.metrics.text().decode()
            assert 'hasse_requests_total{route="/search/images",status="429"} 3.0' in text
            assert 'hasse_rejections_total{reason="busy"} 3.0' in text
            assert "hasse_request_seconds_count{" not in text, "a refusal is no answer in time"
            # As soon as there is room, the same request comes in, body and all.
            house.is_full = False
            second.say(ASK)
            assert (await second.hear())[0] == 200
            assert house.inside == ["POST /search/images hello"]

    run(main)


def test_who_comes_together_is_told_together_each_with_an_id_of_its_own() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitors = [await visit() for _ in range(5)]
            other = ASK.replace("images", "captions")
            texts = [ASK, ASK.replace("Host: a", "Host: b"), DRAW]
            for text in texts:
                visitors[0].say(text)
                assert (await visitors[0].hear())[0] == 429
            visitors[0].say(other)
            assert (await visitors[0].hear())[0] == 200, "no search, as this house has them"
            called = len(house.called)
            for visitor, text in zip(visitors, [*texts, ASK, other], strict=True):
                visitor.say(text)
            heard = [await visitor.hear() for visitor in visitors]
            assert [status for status, _, _ in heard] == [429, 429, 429, 429, 200]
            assert len({headers["x-request-id"] for _, headers, _ in heard[:4]}) == 4
            assert len(house.called) == called + 1, "only the other one was parsed"
            house.record.settle()
            text = house.metrics.text().decode()
            assert 'hasse_requests_total{route="/search/images",status="429"} 5.0' in text
            assert (
                'hasse_requests_total{route="/images/{image_id}/diagram",status="429"} 2.0' in text
            )

    run(main)


@pytest.mark.parametrize("place", ["Host", "Content-Length"])
@pytest.mark.parametrize("name", ["X-Request-ID:", "x-request-id: "])
def test_a_request_is_like_another_whatever_their_ids(place: str, name: str) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            texts = [ASK.replace(place, f"{name}{given}\n{place}") for given in ("one", "2-b", "@")]
            heard = []
            for text in (*texts, ASK, texts[0]):
                visitor.say(text)
                heard.append(await visitor.hear())
            assert [status for status, _, _ in heard] == [429] * 5
            ids = [headers["x-request-id"] for _, headers, _ in heard]
            assert (ids[0], ids[1], ids[4]) == ("one", "2-b", "one")
            assert len(ids[2]) == len(ids[3]) == 16, "a bad id and none at all are given new ones"
            for (_, _, body), request_id in zip(heard, ids, strict=True):
                assert Problem.model_validate_json(body).request_id == request_id
            assert house.called == [False], "only the first was parsed"

    run(main)


def test_who_asks_again_before_it_was_told_is_told_twice_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await refused_and_untold(visit, monkeypatch)
            house.is_full = False
            visitor.say(ASK)
            assert [(await visitor.hear())[0] for _ in range(2)] == [429, 200]

    run(main)


def test_who_leaves_before_it_was_told_keeps_nobody_else_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            leaves, stays = await visit(), await visit()
            leaves.say(ASK)
            assert (await leaves.hear())[0] == 429
            monkeypatch.setattr("service.keeper._TOGETHER_SECONDS", 0.2)
            for visitor in (leaves, stays):
                visitor.say(ASK)
            await asyncio.sleep(0.05)
            leaves.writer.transport.abort()
            assert (await stays.hear())[0] == 429
            house.record.settle()
            told = 'hasse_requests_total{route="/search/images",status="429"} 3.0'
            assert told in house.metrics.text().decode()

    run(main)


def test_a_stop_answers_who_was_not_told_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await refused_and_untold(visit, monkeypatch)
            house.stopping = True
            for connection in house.connections:
                connection.shutdown()
            assert (await visitor.hear())[0] == 429
            assert await visitor.gone()

    run(main)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (ASK.replace("Host", "X-Request-ID: a\nX-Request-ID: b\nHost"), 1),
        (ASK.replace("Host", "Connection: close\nHost"), 1),
        (ASK.replace("Host", "Expect: 100-continue\nHost"), 1),
        (
            "POST /search/images HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n",
            1,
        ),
        (ASK * 2, 2),
        (ASK.replace("Host: a", "Host: " + "a" * 3_000), 1),
        ("\n\n" + ASK, 1),
    ],
)
def test_what_is_not_one_plain_request_is_parsed_each_time(text: str, answers: int) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            for _ in range(2):
                visitor = await visit()
                visitor.say(text)
                for _ in range(answers):
                    assert (await visitor.hear())[0] == 429
            assert house.called == [False] * 2 * answers

    run(main)


def test_a_body_of_another_length_than_its_head_says_is_parsed() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 429
            visitor.say(ASK[:-2])
            assert (await visitor.hear())[0] == 429  # at its head
            visitor.say("lo")
            visitor.say(ASK + ASK)
            for _ in range(2):
                assert (await visitor.hear())[0] == 429
            assert len(house.called) == 4
            house.stopping = True
            visitor.say(ASK)
            assert (await visitor.hear())[1]["connection"] == "close"
            assert await visitor.gone()

    run(main)


def test_only_so_many_heads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.keeper._HEADS", 2)

    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            for name in "abcabca":
                visitor.say(ASK.replace("Host: a", f"Host: {name}"))
                assert (await visitor.hear())[0] == 429
            # a, b; then c alone; c, a; then b alone; b, c; then a alone.
            assert len(house.called) == 7

    run(main)


def test_refusals_that_are_counted_together_are_each_counted() -> None:
    metrics = Metrics()
    record = Record(metrics)
    for route, seconds in (("/one", 0.003), ("/other", 0.3), ("/one", 0.03)):
        record(Alike("POST", route, route, 429, "busy"), "id", seconds)
    record.settle()
    record.settle()
    text = metrics.text().decode()
    assert 'hasse_requests_total{route="/one",status="429"} 2.0' in text
    assert 'hasse_requests_total{route="/other",status="429"} 1.0' in text
    assert 'hasse_rejections_total{reason="busy"} 3.0' in text
    assert 'hasse_request_seconds_bucket{le="0.005",route="/one"} 1.0' in text
    assert 'hasse_request_seconds_sum{route="/one"} 0.033' in text


def test_a_body_that_comes_late_is_refused_at_its_head_and_then_let_fall() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say("POST /search/images HTTP/1.1\nHost: a\nContent-Length: 100000\n\n")
            assert (await visitor.hear())[0] == 429
            house.is_full = False
            for _ in range(100):
                visitor.say("x" * 1000)
                await visitor.writer.drain()
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 200
            assert house.inside == ["POST /search/images hello"]

    run(main)


def test_only_searches_are_refused() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say("GET /search/images HTTP/1.1\nHost: a\n\n")
            assert (await visitor.hear())[0] == 200
            visitor.say(ASK.replace("/search/images", "/images"))
            assert (await visitor.hear())[0] == 200
            assert len(house.inside) == 2

    run(main)


def test_a_refused_get_is_counted_by_its_route_and_described_by_its_path() -> None:
    async def main() -> None:
        out = io.StringIO()
        logs.configure("json", stream=out)
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say("GET /images/7/diagram?key=secret HTTP/1.1\nHost: a\n\n")
            assert (await visitor.hear())[0] == 429
            house.record.settle()
            logs.flush()
            (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
            assert (line["method"], line["path"], line["status"]) == (
                "GET",
                "/images/7/diagram",
                429,
            )
            metrics = house.metrics.text().decode()
            assert 'route="/images/{image_id}/diagram"' in metrics
            assert "/images/7" not in metrics
            house.is_full = False
            visitor.say("GET /images/7/diagram HTTP/1.1\nHost: a\n\n")
            assert (await visitor.hear())[0] == 200

    run(main)


@pytest.mark.parametrize(
    "text",
    [
        "hello\n\n",
        "\x16\x03\x01\n\n",
        "GET http://a HTTP/1.1\nHost: a\n\n",
        "POST /search/images HTTP/1.1\nContent-Length: 5\nContent-Length: 6\n\nhello",
        "POST /images HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nnonsense\n",
    ],
)
def test_what_is_no_request_is_a_problem_that_is_counted(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say(text)
            status, headers, body = await visitor.hear()
            found = Problem.model_validate_json(body)
            assert (status, found.reason) == (400, "malformed")
            assert headers["content-type"] == "application/problem+json"
            assert headers["x-request-id"] == found.request_id
            assert headers["connection"] == "close"
            assert await visitor.gone()
            assert house.inside == []
            house.record.settle()
            metrics = house.metrics.text().decode()
            assert 'hasse_requests_total{route="other",status="400"} 1.0' in metrics
            assert 'hasse_rejections_total{reason="malformed"} 1.0' in metrics

    run(main)
    assert "Invalid HTTP" not in caplog.text


def test_a_client_that_asks_before_it_sends_is_told_no_and_not_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.door._DISCARD_SECONDS", 60)

    async def main() -> None:
        async with open_house() as (_, visit):
            visitor = await visit()
            visitor.say(
                "POST /search/images HTTP/1.1\nHost: a\nExpect: 100-continue\n"
                "Content-Length: 100000\n\n"
            )
            status, headers, _ = await visitor.hear()
            assert (status, headers["connection"]) == (429, "close")
            assert await visitor.gone()

    run(main)


def test_a_client_that_asks_before_it_sends_is_told_to_go_on_when_it_is_let_in() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full = False
            visitor = await visit()
            head, body = ASK.replace("Host", "Expect: 100-continue\nHost").split("\n\n")
            visitor.say(f"{head}\n\n")
            assert await visitor.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            visitor.say(body)
            assert (await visitor.hear())[0] == 200
            house.is_full = True
            visitor.say(ASK)  # which asks nothing before
            status, headers, _ = await visitor.hear()
            assert (status, "connection" in headers) == (429, False)

    run(main)


def test_the_body_of_a_refused_request_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.door._DISCARD_SECONDS", 0.5)

    async def main() -> None:
        async with open_house() as (house, visit):
            head, body = ASK.split("\n\n")
            whole, half = await visit(), await visit()
            for visitor, sent in ((whole, body), (half, body[:2])):
                visitor.say(f"{head}\n\n")
                assert (await visitor.hear())[0] == 429
                visitor.say(sent)
            assert await half.gone()
            house.is_full = False
            whole.say(ASK)
            assert (await whole.hear())[0] == 200

    run(main)


def test_a_client_that_wants_one_answer_gets_it_whole() -> None:
    async def main() -> None:
        async with open_house() as (_, visit):
            for version, more in (("1.0", ""), ("1.1", "Connection: close\n")):
                visitor = await visit()
                head = f"POST /search/images HTTP/{version}\n{more}Content-Length: 5\n\n"
                visitor.say(head)
                status, headers, _ = await visitor.hear()
                assert (status, headers["connection"]) == (429, "close")
                visitor.say("hello")
                assert await visitor.gone()

    run(main)


def test_who_asks_too_soon_again_waits_and_keeps_nobody_else() -> None:
    async def main() -> None:
        async with open_house(per_second=4) as (house, visit):
            hasty, other = await visit(), await visit()
            loop = asyncio.get_running_loop()
            start = loop.time()
            for _ in range(4):
                hasty.say(ASK)
                assert (await hasty.hear())[0] == 429
            assert loop.time() - start >= 0.5 - 0.01
            house.is_full = False
            other.say(ASK)
            assert (await other.hear())[0] == 200

    run(main)


def test_who_waited_a_moment_is_answered_at_once() -> None:
    async def main() -> None:
        async with open_house(per_second=9) as (_, visit):
            loop = asyncio.get_running_loop()
            visitor = await visit()
            for _ in range(4):
                visitor.say(ASK)
                start = loop.time()
                assert (await visitor.hear())[0] == 429
                assert loop.time() - start < 1
                await asyncio.sleep(0.15)

    run(main)


def test_a_connection_is_closed_when_it_rested_long_enough_and_not_before() -> None:
    async def main() -> None:
        async with open_house(keep_alive=1.0) as (house, visit):
            visitor = await visit()
            loop = asyncio.get_running_loop()
            for full in (True, False, True):
                house.is_full = full
                visitor.say(ASK)
                assert (await visitor.hear())[0] == (429 if full else 200)
                await asyncio.sleep(0.6)
            start = loop.time()
            assert await visitor.gone()
            assert 0.1 < loop.time() - start < 5

    run(main)


def test_an_answer_may_take_longer_than_a_connection_may_rest() -> None:
    async def main() -> None:
        async with open_house(keep_alive=0.1) as (house, visit):

            async def slowly(scope: Any, receive: Any, send: Any) -> None:
                await asyncio.sleep(0.3)
                headers = [(b"content-length", b"2")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": b"in"})

            house.answer = slowly
            visitor = await visit()
            visitor.say("GET /0 HTTP/1.1\nHost: a\n\nGET /1 HTTP/1.1\nHost: a\n\nGET /2")
            for _ in range(2):
                assert (await visitor.hear())[0] == 200
            assert await visitor.gone()

    run(main)


@pytest.mark.parametrize("asked", [1, 2, 3])
@pytest.mark.parametrize("answered", [0, 1])
def test_who_leaves_takes_its_work_along_also_if_it_asked_for_more(
    asked: int, answered: int
) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            begun: list[str] = []
            left: list[str] = []
            departures: list[Departure] = []

            async def slowly(scope: Any, receive: Any, send: Any) -> None:
                begun.append(scope["path"])
                departures.append(scope[SCOPE])
                await receive()
                if len(begun) > answered:
                    left.append((await receive())["type"])
                    return
                headers = [(b"content-length", b"2")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": b"in"})

            house.answer = slowly
            visitor = await visit()
            visitor.say("".join(f"GET /{at} HTTP/1.1\nHost: a\n\n" for at in range(asked + 1)))
            for _ in range(answered):
                assert (await visitor.hear())[0] == 200
            await asyncio.sleep(0.05)
            visitor.writer.close()
            await asyncio.sleep(0.05)
            assert begun == [f"/{at}" for at in range(answered + 1)]
            assert left == ["http.disconnect"]
            assert [one.happened for one in departures] == [False] * answered + [True]

    run(main)


UPGRADE = "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAEA\nHost"


@pytest.mark.parametrize("pause", [0, 0.02])
@pytest.mark.parametrize("full", [True, False])
def test_who_asks_for_another_protocol_is_answered_in_this_one(pause: float, full: bool) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            for _ in range(2):  # it changes nothing for the next request
                house.is_full = full
                head, body = ASK.replace("Host", UPGRADE).split("\n\n")
                visitor.say(head[:20])
                await asyncio.sleep(pause)
                visitor.say(f"{head[20:]}\n\n")
                await asyncio.sleep(pause)
                visitor.say(body)
                assert (await visitor.hear())[0] == (429 if full else 200)
                house.is_full = False
                visitor.say(ASK)
                assert (await visitor.hear())[0] == 200
            assert set(house.inside) == {"POST /search/images hello"}
            assert len(house.inside) == (2 if full else 4)

    run(main)


def test_who_stands_in_line_may_have_asked_for_another_protocol() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full, house.places = False, False
            visitor = await visit()
            visitor.say(ASK.replace("Host", UPGRADE))
            await asyncio.sleep(0.05)
            house.line.pop()()
            assert (await visitor.hear())[0] == 200
            assert house.inside == ["POST /search/images hello"]
            assert house.called == [True]

    run(main)


@pytest.mark.parametrize("target", ["a:80", "/search/images"])
def test_nobody_is_connected_elsewhere(target: str) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await visit()
            visitor.say(f"CONNECT {target} HTTP/1.1\nHost: a\n\nhello")
            assert (await visitor.hear())[0] == 400
            assert await visitor.gone()
            assert house.inside == []

    run(main)


@pytest.mark.parametrize("begun", ["", "GET /images", "GET /images HTTP/1.1\nHost: a\n"])
def test_a_head_that_does_not_come_is_not_waited_for(begun: str) -> None:
    async def main() -> None:
        async with open_house(keep_alive=1.0) as (house, visit):
            visitor = await visit()
            visitor.say(begun)
            await asyncio.sleep(0.6)
            if begun:
                visitor.say("G")  # a little more makes no head of it
            assert await visitor.gone()
            visitor = await visit()
            await asyncio.sleep(0.6)
            visitor.say("GET /images HTTP/1.1\n")
            await asyncio.sleep(0.6)  # its time begins with it
            visitor.say("Host: a\n\n")
            assert (await visitor.hear())[0] == 200
            assert house.inside == ["GET /images"]

    run(main)


def test_who_was_answered_before_its_body_was_whole_rests_when_no_more_of_it_comes() -> None:
    async def main() -> None:
        async with open_house(keep_alive=1.0) as (house, visit):

            async def hasty(scope: Any, receive: Any, send: Any) -> None:
                headers = [(b"content-length", b"2")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"no"})

            house.answer = hasty
            visitor = await visit()
            visitor.say("POST /images HTTP/1.1\nHost: a\nContent-Length: 1000\n\n")
            assert (await visitor.hear())[0] == 401
            for _ in range(3):
                await asyncio.sleep(0.6)
                visitor.say("x")
            assert not visitor.reader.at_eof()
            assert await visitor.gone()

    run(main)


@pytest.mark.parametrize(
    "begun",
    [
        "GET /",
        "GET / HTTP/1.1\nX: ",
        "GET / HTTP/1.1\nX: a\n",
        "POST /images HTTP/1.1\nTransfer-Encoding: chunked\n\n1\nx\n0\nX: ",
    ],
)
def test_of_a_head_without_an_end_only_so_much_is_read(begun: str) -> None:
    async def main() -> None:
        async with open_house() as (_, visit):
            visitor = await visit()
            visitor.say(begun)
            more = "X: b\n" if begun.endswith("a\n") else "a" * 5
            hearing = asyncio.create_task(visitor.hear())
            while not hearing.done():
                visitor.say(more * 1000)
                await asyncio.sleep(0.02)
            status, headers, body = await hearing
            assert (status, headers["connection"]) == (431, "close")
            assert Problem.model_validate_json(body).reason == "head_too_large"

    run(main)


def test_a_target_that_is_too_long_is_told_so_also_when_it_comes_whole() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full = False
            visitor = await visit()
            visitor.say(f"GET /diagram?caption={'a' * 65_536} HTTP/1.1\nHost: a\n\n")
            status, headers, _ = await visitor.hear()
            assert (status, headers["connection"]) == (431, "close")

    run(main)


def test_what_is_long_and_has_a_beginning_and_an_end_is_no_head() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full = False
            visitor = await visit()
            visitor.say("POST /images HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n")
            for _ in range(20):
                visitor.say("2710\n" + "x" * 10_000 + "\n")
                await asyncio.sleep(0.005)
            visitor.say("0\nX: a\n\n")
            assert (await visitor.hear())[0] == 200
            assert len(house.inside[0]) > 200_000

    run(main)


def test_who_stands_in_line_comes_in_whole_when_it_is_told_to() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full, house.places = False, False
            visitors = [await visit() for _ in range(3)]
            for visitor in visitors:
                head, body = ASK.split("\n\n")
                visitor.say(f"{head}\n\n")
                await asyncio.sleep(0.02)
                visitor.say(body)  # comes while its head stands in line
                await asyncio.sleep(0.02)
            assert (len(house.line), house.inside) == (3, [])
            visitors[1].writer.close()
            await asyncio.sleep(0.05)
            assert len(house.line) == 2  # who leaves is forgotten
            house.places = True
            for turn in house.line:
                turn()
            for visitor in (visitors[0], visitors[2]):
                assert (await visitor.hear())[0] == 200
            assert house.inside == ["POST /search/images hello"] * 2
            assert all(waited is not None and 0.05 < waited < 30 for waited in house.waited)
            visitors[0].say(ASK)
            assert (await visitors[0].hear())[0] == 200
            assert house.waited[2] is None  # the next one did not wait

    run(main)


def test_who_stands_in_line_may_do_so_for_longer_than_a_connection_may_rest() -> None:
    async def main() -> None:
        async with open_house(keep_alive=0.1) as (house, visit):
            visitor = await stand_in_line(house, visit)
            await asyncio.sleep(0.2)
            house.line.pop()()
            assert (await visitor.hear())[0] == 200

    run(main)


def test_who_asked_too_soon_may_have_to_stand_in_line_then() -> None:
    async def main() -> None:
        async with open_house(per_second=15) as (house, visit):
            visitor = await refused_twice(visit)
            house.is_full, house.places = False, False
            visitor.say(ASK)
            async with asyncio.timeout(5):
                while not house.line:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert house.inside == []
            house.line.pop()()
            assert (await visitor.hear())[0] == 200

    run(main)


def test_who_is_refused_at_its_turn_is_told_so() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await stand_in_line(house, visit)
            house.is_full = True
            house.line.pop()()
            assert (await visitor.hear())[0] == 429
            house.is_full, house.places = False, True
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 200
            assert house.waited == [None]  # the next one did not wait
            assert house.called == [True, False]

    run(main)


def test_a_stop_answers_who_stands_in_line() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            visitor = await stand_in_line(house, visit)
            house.stopping = True
            for connection in house.connections:
                connection.shutdown()
            await asyncio.sleep(0.05)
            assert house.inside == []  # not before its turn
            house.line.pop()()
            assert (await visitor.hear())[0] == 200
            assert await visitor.gone()

    run(main)


def test_who_came_in_before_its_turn_does_not_stand_in_line_twice() -> None:
    async def main() -> None:
        async with open_house(per_second=15) as (house, visit):
            visitor = await refused_twice(visit)
            visitor.say("POST /search/images HTTP/1.1\nHost: a\nContent-Length: 50000\n\n")
            await asyncio.sleep(0.02)
            visitor.say("x" * 50_000)
            assert (await visitor.hear())[0] == 429
            await asyncio.sleep(0.12)  # in which no haste is seen
            house.is_full, house.places = False, False
            visitor.say(ASK)
            await asyncio.sleep(0.6)  # in which the turn comes that it did not wait for
            assert len(house.line) == 1

    run(main)


@pytest.mark.parametrize("together", [True, False])
def test_what_is_long_does_not_wait_at_the_door(together: bool) -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.is_full, house.places = False, False
            visitor = await visit()
            body = "x" * 1_000_000
            head = f"POST /search/images HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n"
            if not together:
                visitor.say(head)
                await asyncio.sleep(0.05)
                assert len(house.line) == 1
                visitor.say(body)
            else:
                visitor.say(head + body)
            assert (await visitor.hear())[0] == 200
            assert house.line == []
            assert len(house.inside[0]) > len(body)

    run(main)


def test_while_the_service_stops_a_refusal_is_the_last_answer_on_its_connection() -> None:
    async def main() -> None:
        async with open_house() as (house, visit):
            house.stopping = True
            visitor = await visit()
            visitor.say(ASK)
            status, headers, _ = await visitor.hear()
            assert (status, headers["connection"]) == (429, "close")
            assert await visitor.gone()

    run(main)


@pytest.mark.parametrize("heard", [True, False])
def test_a_stop_answers_what_a_client_in_haste_has_sent(heard: bool) -> None:
    async def main() -> None:
        async with open_house(per_second=0.5) as (house, visit):
            visitor = await refused_twice(visit)
            visitor.say(ASK)
            await visitor.writer.drain()
            if heard:  # by the service, which puts it off
                await asyncio.sleep(0.05)
            house.stopping = True
            for connection in house.connections:
                connection.shutdown()
            assert (await visitor.hear())[0] == 429
            assert await visitor.gone()

    run(main)


def test_the_pace_spreads_refusals_and_never_puts_one_off_longer_than_it_may() -> None:
    pace = Pace(per_second=10)
    assert pace.wait(100.0, 1) == 0
    waits = [pace.wait(100.0, 1) for _ in range(30)]
    assert waits == pytest.approx([min(0.1 * at, 1.0) for at in range(1, 31)])
    assert pace.wait(200.0, 1) == 0


def test_of_those_who_ask_at_once_fewer_are_heard_and_nobody_waits_longer_than_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Pace, float]] = []

    def wait(pace: Pace, _now: float, longest: float) -> float:
        asked.append((pace, longest))
        return 0.0

    async def main() -> None:
        async with open_house(per_second=100) as (house, visit):
            visitor = await visit()
            keeper = house.connections[0].keeper
            for pace, interval in ((keeper.pace, 0.01), (keeper.haste, 0.1)):
                waits = [pace.wait(100.0, 9) for _ in range(3)]
                assert waits == pytest.approx([0, interval, 2 * interval])
            monkeypatch.setattr(Pace, "wait", wait)
            visitor.say(ASK)
            assert (await visitor.hear())[0] == 429
            for haste, pause in ((60.0, 0.0), (0.0, 0.1)):  # which is within it, and is not
                monkeypatch.setattr("service.door._HASTE_SECONDS", haste)
                await asyncio.sleep(pause)
                visitor.say(ASK)
                assert (await visitor.hear())[0] == 429
            (first, _), (second, left) = asked
            assert (first, second) == (keeper.haste, keeper.pace)
            assert 0 < left <= 2.9

    run(main)


def test_the_document_of_a_refusal_is_ascii() -> None:
    async def main() -> None:
        async with open_house() as (_, visit):
            visitor = await visit()
            visitor.say(ASK)
            body = (await visitor.hear())[2]
            assert json.loads(body.decode("ascii"))["status"] == 429

    run(main)
