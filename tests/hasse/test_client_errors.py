"""The client against services that fail: what it repeats, and what it raises."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hasse import (
    AccessError,
    AsyncClient,
    BusyError,
    Client,
    ConflictError,
    HasseError,
    InvalidError,
    NotFoundError,
    ProblemError,
    Retries,
    UnavailableError,
    UnreachableError,
    UnreadableError,
    UnsendableError,
)
from hasse.service.client.errors import error_of
from hasse.service.errors import REASONS, ErrorKind


def problem(status: int, **headers: str) -> httpx.Response:
    body = {
        "type": "/docs#x",
        "title": "x",
        "status": status,
        "detail": "no",
        "reason": "x",
        "request_id": "7",
        "errors": [],
        "of a later release": True,
    }
    return httpx.Response(status, json=body, headers=headers)


class Waits:
    """A service that answers as it is told, and the seconds that a client waited for it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *answers: httpx.Response | Exception
    ) -> None:
        self.seconds: list[float] = []
        self._answers = iter(answers)
        self._thread = threading.get_ident()
        monkeypatch.setattr("time.sleep", self.sleep)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        """Note a wait of this test; services of other tests may wait in threads of their own."""
        if threading.get_ident() == self._thread:
            self.seconds.append(seconds)

    def client(self, **retries: Any) -> Client:
        return Client(transport=httpx.MockTransport(self), retries=Retries(**retries))


ALIVE = {"status": "alive"}
LIVE = httpx.Response(200, json=ALIVE)


def test_retry_waits_as_long_as_the_service_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, starting = problem(429, **{"Retry-After": "10"}), problem(503, **{"Retry-After": "0"})
    waits = Waits(monkeypatch, busy, starting, LIVE)
    waits.client().live()
    assert waits.seconds == [10, 0]


@pytest.mark.parametrize("answer", [problem(503), httpx.Response(502), httpx.Response(504)])
@pytest.mark.parametrize("said", [None, "Wed, 21 Oct 2026 07:28:00 GMT", "1.5", "-1", "²"])
def test_retry_without_seconds_waits_the_first_wait(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, said: str | None
) -> None:
    headers = [] if said is None else [(b"Retry-After", said.encode("latin-1"))]
    answer = httpx.Response(answer.status_code, headers=headers, content=answer.content)
    waits = Waits(monkeypatch, answer, LIVE)
    waits.client().live()
    (wait,) = waits.seconds
    assert 0.1 <= wait <= 0.2


def test_retry_of_the_async_client_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = httpx.ConnectError("refused", request=httpx.Request("GET", "/"))
    answers = (problem(429, **{"Retry-After": "3"}), httpx.Response(200, json=ALIVE))
    waits = Waits(monkeypatch, silence, *answers)

    async def sleep(seconds: float) -> None:
        waits.sleep(seconds)

    async def ask() -> None:
        retries = Retries(attempts=3, first_wait=2)
        async with AsyncClient(transport=httpx.MockTransport(waits), retries=retries) as hasse:
            await hasse.live()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(ask())
    backoff, asked = waits.seconds
    assert 1 <= backoff <= 2
    assert asked == 3


def test_client_times_out_and_closes_its_connections() -> None:
    silences: list[float] = []
    closed: list[str] = []

    class Transport(httpx.MockTransport):
        def close(self) -> None:
            closed.append("plain")

        async def aclose(self) -> None:
            closed.append("asynchronous")

    def respond(request: httpx.Request) -> httpx.Response:
        silences.extend(request.extensions["timeout"].values())
        return httpx.Response(200, json=ALIVE)

    async def ask() -> None:
        async with AsyncClient(transport=Transport(respond), timeout=7) as hasse:
            await hasse.live()

    with Client(transport=Transport(respond), timeout=7) as hasse:
        hasse.live()
    asyncio.run(ask())
    assert set(silences) == {7}
    assert closed == ["plain", "asynchronous"]


def test_retry_waits_double_differ_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = [httpx.ConnectError("refused", request=httpx.Request("GET", "/")) for _ in range(9)]
    waits = Waits(monkeypatch, *silence, LIVE)
    waits.client(attempts=10, first_wait=1, longest_wait=8).live()
    for wait, most in zip(waits.seconds, [1, 2, 4, 8, 8, 8, 8, 8, 8], strict=True):
        assert most / 2 <= wait <= most
    assert len(set(waits.seconds)) > 5


@pytest.mark.parametrize(
    ("answers", "error", "asked"),
    [
        ([problem(503)] * 4, UnavailableError, 4),
        ([problem(429, **{"Retry-After": "11"})], BusyError, 1),
        ([problem(507)], UnavailableError, 1),
        ([problem(500)], ProblemError, 1),
        ([problem(404)], NotFoundError, 1),
        ([httpx.Response(200, text="hello")], UnreadableError, 1),
        ([httpx.Response(404, text="nginx")], UnreadableError, 1),
        ([httpx.ReadTimeout("", request=httpx.Request("GET", "/"))] * 4, UnreachableError, 4),
        ([httpx.DecodingError("", request=httpx.Request("GET", "/"))] * 4, UnreachableError, 4),
    ],
)
def test_error_that_waiting_does_not_help_is_raised(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Any],
    error: type[HasseError],
    asked: int,
) -> None:
    waits = Waits(monkeypatch, *answers)
    with pytest.raises(error) as raised:
        waits.client().ready()
    assert type(raised.value) is error
    assert not str(raised.value).endswith(": ")
    assert len(waits.seconds) == asked - 1


@pytest.mark.parametrize("kind", dict.fromkeys(REASONS.values()), ids=lambda kind: kind.title)
def test_every_error_of_the_service_has_its_class(kind: ErrorKind) -> None:
    classes: dict[int, type[HasseError]] = {
        **dict.fromkeys((400, 413, 415, 422), InvalidError),
        **dict.fromkeys((401, 403), AccessError),
        404: NotFoundError,
        409: ConflictError,
        429: BusyError,
        **dict.fromkeys((503, 507), UnavailableError),
    }
    assert type(error_of(problem(kind.status))) is classes.get(kind.status, ProblemError)


@pytest.mark.parametrize(
    "ask",
    [
        lambda hasse: hasse.live(),
        lambda hasse: hasse.metrics(),
        lambda hasse: hasse.picture(7),
        lambda hasse: hasse.thumbnail(7),
        lambda hasse: hasse.remove_image(7),
    ],
)
def test_page_of_a_proxy_is_unreadable(ask: Callable[[Client], object]) -> None:
    page = httpx.Response(200, html="<h1>Sign in</h1>")
    hasse = Client(transport=httpx.MockTransport(lambda _: page))
    with hasse, pytest.raises(UnreadableError, match="is this its address"):
        ask(hasse)


@pytest.mark.parametrize(
    "ask",
    [
        lambda hasse: hasse.diagram("a dog " * 12_000),
        lambda hasse: hasse.diagram("a \ud800"),
        lambda hasse: hasse.search_images("a \ud800"),
        lambda hasse: hasse.search_images("a dog", max_violation=float("nan")),
        lambda hasse: hasse.add_image(b"", ["a \ud800"]),
        lambda hasse: hasse.add_image(b"", split="\ud800"),
    ],
)
def test_request_that_http_cannot_carry_is_unsendable(ask: Callable[[Client], object]) -> None:
    hasse = Client(transport=httpx.MockTransport(lambda _: LIVE))
    with hasse, pytest.raises(UnsendableError, match="cannot carry this request"):
        ask(hasse)


@pytest.mark.parametrize("picture", ["nowhere.jpg", Path("nowhere.jpg")])
def test_picture_file_that_is_missing_is_an_error_with_its_path(picture: str | Path) -> None:
    with (
        Client(transport=httpx.MockTransport(lambda _: LIVE)) as hasse,
        pytest.raises(HasseError, match=r"nowhere.jpg cannot be read \(No such file"),
    ):
        hasse.search_similar(picture)


def test_error_can_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = problem(429, **{"Retry-After": "11"})
    with pytest.raises(BusyError) as raised:
        Waits(monkeypatch, answer).client().ready()
    other = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert type(other) is BusyError
    assert str(other) == "no (x, request 7)"
    assert (other.problem, other.retry_after) == (raised.value.problem, 11)


def test_removal_with_a_lost_answer_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = httpx.ReadError("reset", request=httpx.Request("DELETE", "/"))
    Waits(monkeypatch, lost, problem(404)).client().remove_image(7)
    with pytest.raises(NotFoundError):
        Waits(monkeypatch, problem(404)).client().remove_image(7)
    with pytest.raises(UnreadableError):
        Waits(monkeypatch, lost, httpx.Response(404, text="nginx")).client().remove_image(7)


def test_removal_refused_as_busy_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = problem(429, **{"Retry-After": "0"})
    with pytest.raises(NotFoundError):
        Waits(monkeypatch, busy, problem(404)).client().remove_image(7)
    passing = problem(503, **{"Retry-After": "0"})
    Waits(monkeypatch, passing, busy, problem(404)).client().remove_image(7)


def test_password_in_the_address_is_sent_and_not_shown() -> None:
    answers = [httpx.Response(200, text="x"), httpx.Response(404, text="x")]
    sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if not answers:
            raise httpx.ConnectError("refused", request=request)
        return answers.pop()

    url, transport = "https://any:secret@hasse.test/base", httpx.MockTransport(respond)
    with Client(url, retries=Retries(attempts=1), transport=transport) as hasse:
        for error in (UnreadableError, UnreadableError, UnreachableError):
            with pytest.raises(error, match=r"^https://hasse\.test/base/readyz (did|answered)"):
                hasse.ready()
    assert all(request.headers["Authorization"].startswith("Basic ") for request in sent)
