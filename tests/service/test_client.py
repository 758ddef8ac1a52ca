"""The client, against the real application, a real server, and services that misbehave."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.client import (
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
from service.client.errors import error_of
from service.errors import REASONS, Kind
from service.http.access import fingerprint, new_key
from service.schemas import milliseconds
from service.settings import Settings
from tests.service.client import Client as InProcess
from tests.service.collection import make_collection, png
from tests.service.runtime.test_server import ROOT, serving

KEY = new_key()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = make_collection(tmp_path_factory.mktemp("client"))
    settings = Settings(index=folder, device="cpu", write_keys=f"a:{fingerprint(KEY)}")
    with InProcess(create_app(settings)) as running:
        yield running


def asking(app: InProcess, key: str | None = None) -> AsyncClient:
    return AsyncClient("http://hasse.test", key, transport=httpx.ASGITransport(app.app))


def test_it_needs_httpx_and_pydantic_and_nothing_of_the_service() -> None:
    code = "import sys, service.client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(done.stdout.split())
    loaded = {name.partition(".")[0] for name in modules}
    assert {"httpx", "pydantic"} <= loaded
    heavy = {"torch", "torchvision", "numpy", "faiss", "numba", "PIL", "sqlalchemy", "fastapi"}
    assert not loaded & (heavy | {"starlette", "pydantic_settings", "index"})
    assert {name for name in modules if name.startswith("models.")} == {"models.errors"}


def test_programs_that_import_it_are_told_its_types() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["service"]
    assert (ROOT / "service" / "py.typed").is_file()


def test_both_clients_have_the_same_methods() -> None:
    def methods(client: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(method))
            for name, method in vars(client).items()
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "search_images": lambda hasse: hasse.search_images("a dog", k=3),
    "search_images_together": lambda hasse: hasse.search_images_together(["a dog"], k=3),
    "search_captions": lambda hasse: hasse.search_captions(png(1), image_ids=[7, 8]),
    "search_all_of": lambda hasse: hasse.search_all_of(["a dog", 7], offset=3),
    "search_common": lambda hasse: hasse.search_common(["a dog", 7], split="new"),
    "search_like": lambda hasse: hasse.search_like(7, ["a dog"], ["a cat"], mode="exact"),
    "entails": lambda hasse: hasse.entails(7, "a dog"),
    "entails_together": lambda hasse: hasse.entails_together([(7, "a dog")]),
    "diagram": lambda hasse: hasse.diagram("a dog"),
    "image": lambda hasse: hasse.image(7),
    "caption": lambda hasse: hasse.caption(8),
    "picture": lambda hasse: hasse.picture(7),
    "thumbnail": lambda hasse: hasse.thumbnail(7),
    "add_image": lambda hasse: hasse.add_image(png(1), ["a dog"], image_id=0, split="new"),
    "remove_image": lambda hasse: hasse.remove_image(7),
    "live": lambda hasse: hasse.live(),
    "ready": lambda hasse: hasse.ready(),
    "version": lambda hasse: hasse.version(),
    "metrics": lambda hasse: hasse.metrics(),
}


def test_both_clients_ask_the_same() -> None:
    sent: list[tuple[str, str, bytes]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        _, _, boundary = request.headers.get("Content-Type", "").partition("boundary=")
        content = request.read().replace(boundary.encode() or b"\0", b"")
        sent.append((request.method, str(request.url), content))
        return httpx.Response(404)

    async def wait(ask: Callable[[Any], Any]) -> None:
        async with AsyncClient(transport=httpx.MockTransport(respond)) as hasse:
            await ask(hasse)

    assert set(QUESTIONS) == {name for name in vars(Client) if name[0] != "_"} - {"close"}
    for ask in QUESTIONS.values():
        with Client(transport=httpx.MockTransport(respond)) as hasse:
            with pytest.raises(UnreadableError):
                ask(hasse)
            with pytest.raises(UnreadableError):
                asyncio.run(wait(ask))
    assert sent[::2] == sent[1::2]
    assert len(set(sent)) == len(QUESTIONS)


def test_every_question_is_answered_with_types(app: InProcess, tmp_path: Path) -> None:
    async def served(path: str, **body: Any) -> Any:
        return (await app.http.post(path, json=body)).json()

    async def ask() -> None:
        async with asking(app) as hasse:
            found = await hasse.search_images("a dog", k=3)
            assert [hit.rank for hit in found.hits] == [1, 2, 3]
            together = await hasse.search_images_together(["a dog", "a cat"], k=3, mode="exact")
            assert [hit.image_id for hit in together[0].hits] == [
                hit.image_id for hit in found.hits
            ]
            path = tmp_path / "a.png"
            path.write_bytes(png(1))
            options: dict[str, Any] = {"k": 5, "image_ids": [1000, 1001], "offset": 1}
            options["max_violation"] = None
            captions = await hasse.search_captions(path, **options)
            assert captions == await hasse.search_captions(png(1), **options)
            assert captions.searched == 4
            assert len(captions.hits) == 3
            all_of = await hasse.search_all_of(["a dog", 1000], k=2)
            assert [len(hit.parts) for hit in all_of.hits] == [2, 2]
            assert len((await hasse.search_common(["a dog", 1000], k=4)).hits) == 4
            like = await hasse.search_like(1000, ["a dog"], ["a cat"], k=4)
            put = {"like": 1000, "plus": ["a dog"], "minus": ["a cat"], "k": 4}
            assert like.model_dump(mode="json") == await served("/search/like", **put)
            pairs: list[tuple[str | int, str]] = [("a red dog", "a cat"), (1001, "a red cat")]
            each = await hasse.entails_together(pairs)
            for (premise, hypothesis), verdict in zip(pairs, each, strict=True):
                body = {"premise": premise, "hypothesis": hypothesis}
                assert verdict.model_dump(mode="json") == await served("/entails", **body)
                assert verdict == await hasse.entails(premise, hypothesis)
            for brought in (png(1), path):
                told = await hasse.entails(brought, "a red cat")
                assert told.violation == pytest.approx(each[1].violation, abs=1e-6)
            for middle in ("a dog & a cat?", 1000):
                drawn = await hasse.diagram(middle)
                (focus,) = [node for node in drawn.nodes if node.place == "focus"]
                assert middle in (*focus.captions, focus.image_id)
            record = await hasse.image(found.hits[0].image_id)
            assert (await hasse.caption(record.captions[0].caption_id)) == record.captions[0]
            assert (await hasse.picture(record.image_id)).startswith(b"\x89PNG")
            assert (await hasse.thumbnail(record.image_id)).startswith(b"\xff\xd8")
            await hasse.live()
            assert (await hasse.ready()).status == "ready"
            assert (await hasse.version()).images == 12
            assert "hasse_requests_total" in await hasse.metrics()

    app.run(ask())


def test_pictures_are_added_and_removed(app: InProcess) -> None:
    async def change() -> None:
        async with asking(app, KEY) as hasse:
            before = datetime.now(UTC)
            added = await hasse.add_image(png(60), ["a dog", "a cat"], split="new", image_id=0)
            assert (added.created, added.image_id, added.split) == (True, 0, "new")
            again = await hasse.add_image(png(60), ["a dog"])
            assert (again.created, again.captions) == (False, added.captions)
            for options in ({"split": "new"}, {"added_from": before}, {"image_ids": (0,)}):
                hits = (await hasse.search_images("a dog", **options)).hits
                assert [hit.image_id for hit in hits] == [0]
            for moment in (before, before.astimezone().replace(tzinfo=None)):
                earlier = (await hasse.search_images("a dog", added_before=moment)).hits
                assert 0 not in {hit.image_id for hit in earlier}
            with pytest.raises(ConflictError):
                await hasse.add_image(png(61), image_id=0)
            await hasse.remove_image(0)
            with pytest.raises(NotFoundError):
                await hasse.remove_image(0)

    app.run(change())


def test_problems_are_raised_as_what_they_are(app: InProcess) -> None:
    async def ask() -> None:
        async with asking(app) as hasse:
            with pytest.raises(NotFoundError, match="no image with the id 77") as missing:
                await hasse.image(77)
            assert missing.value.problem.reason == "not_found"
            with pytest.raises(InvalidError) as invalid:
                await hasse.search_images("a dog", k=0)
            assert invalid.value.problem.errors[0].field == "k"
            with pytest.raises(InvalidError):
                await hasse.search_captions(b"no picture")
            with pytest.raises(AccessError, match="send a key"):
                await hasse.add_image(png(1))
        async with asking(app, "wrong") as hasse:
            with pytest.raises(AccessError, match="not known"):
                await hasse.remove_image(1000)

    app.run(ask())


def test_the_plain_client_talks_to_a_real_server(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    picture = tmp_path / "beach.png"
    picture.write_bytes(png(60))
    with serving(folder, open_writes=True) as server, Client(server.url) as hasse:
        assert hasse.ready().status == "ready"
        added = hasse.add_image(picture, ["a dog in the park"])
        assert (added.file_name, added.created) == ("beach.png", True)
        assert added.image_id in {hit.image_id for hit in hasse.search_images("a", k=50).hits}
        assert hasse.picture(added.image_id) == png(60)
        assert len(hasse.search_captions(picture, k=7).hits) == 7
        assert len(hasse.search_images_together(["a dog"] * 32)) == 32
        hasse.remove_image(added.image_id)
        assert hasse.version().images == 12


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
        monkeypatch.setattr("time.sleep", self.seconds.append)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **retries: Any) -> Client:
        return Client(transport=httpx.MockTransport(self), retries=Retries(**retries))


ALIVE = {"status": "alive"}
LIVE = httpx.Response(200, json=ALIVE)


def test_a_passing_trouble_is_waited_out_as_the_service_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, starting = problem(429, **{"Retry-After": "10"}), problem(503, **{"Retry-After": "0"})
    waits = Waits(monkeypatch, busy, starting, LIVE)
    waits.client().live()
    assert waits.seconds == [10, 0]


@pytest.mark.parametrize("answer", [problem(503), httpx.Response(502), httpx.Response(504)])
@pytest.mark.parametrize("said", [None, "Wed, 21 Oct 2026 07:28:00 GMT", "1.5", "-1", "²"])
def test_a_passing_trouble_that_names_no_seconds_is_waited_out_too(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, said: str | None
) -> None:
    headers = [] if said is None else [(b"Retry-After", said.encode("latin-1"))]
    answer = httpx.Response(answer.status_code, headers=headers, content=answer.content)
    waits = Waits(monkeypatch, answer, LIVE)
    waits.client().live()
    (wait,) = waits.seconds
    assert 0.1 <= wait <= 0.2


def test_in_an_event_loop_troubles_are_waited_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = httpx.ConnectError("refused", request=httpx.Request("GET", "/"))
    answers = (problem(429, **{"Retry-After": "3"}), httpx.Response(200, json=ALIVE))
    waits = Waits(monkeypatch, silence, *answers)

    async def sleep(seconds: float) -> None:
        waits.seconds.append(seconds)

    async def ask() -> None:
        retries = Retries(attempts=3, first_wait=2)
        async with AsyncClient(transport=httpx.MockTransport(waits), retries=retries) as hasse:
            await hasse.live()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(ask())
    backoff, asked = waits.seconds
    assert 1 <= backoff <= 2
    assert asked == 3


def test_in_an_event_loop_files_are_read_beside_it(tmp_path: Path) -> None:
    readers: list[int] = []

    class Picture(os.PathLike[str]):
        def __fspath__(self) -> str:
            readers.append(threading.get_ident())
            return str(tmp_path / "a.png")

    async def ask() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(404))
        async with AsyncClient(transport=transport) as hasse:
            for answer in (
                hasse.search_captions(Picture()),
                hasse.entails(Picture(), "a dog"),
                hasse.add_image(Picture()),
            ):
                with pytest.raises(UnreadableError):
                    await answer

    (tmp_path / "a.png").write_bytes(png(1))
    asyncio.run(ask())
    assert readers
    assert threading.get_ident() not in readers


def test_silence_is_bounded_and_connections_are_let_go() -> None:
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


def test_waits_double_differ_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_waiting_does_not_help_is_raised(
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
def test_every_error_of_the_service_has_its_class(kind: Kind) -> None:
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
def test_the_page_of_a_proxy_is_no_answer(ask: Callable[[Client], object]) -> None:
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
def test_what_cannot_be_written_down_is_an_error_of_ours(ask: Callable[[Client], object]) -> None:
    hasse = Client(transport=httpx.MockTransport(lambda _: LIVE))
    with hasse, pytest.raises(UnsendableError, match="cannot be asked this"):
        ask(hasse)


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (datetime(2026, 7, 1, 12), "2026-07-01T10:00:00+00:00"),
        (datetime(1880, 1, 1), "1879-12-31T23:06:32+00:00"),  # when noon was the sun's
        (datetime.min.replace(tzinfo=UTC), "0001-01-01T00:00:00+00:00"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_a_time_is_told_as_the_service_reads_it(
    monkeypatch: pytest.MonkeyPatch, moment: datetime, told: str
) -> None:
    sent: list[Any] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["added_from"])
        return httpx.Response(404)

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        hasse = Client(transport=httpx.MockTransport(respond))
        with hasse, pytest.raises(UnreadableError):
            hasse.search_images("a dog", added_from=moment)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert sent == [told]
    milliseconds(told)


def test_a_time_that_utc_has_not_is_an_error_of_ours() -> None:
    beyond = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
    with Client() as hasse, pytest.raises(UnsendableError, match="added_before cannot be told"):
        hasse.search_images("a dog", added_before=beyond)


def test_a_file_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.png")
    path.write_bytes(png(1))
    sent: list[bytes] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.read())
        return httpx.Response(404)

    hasse = Client(transport=httpx.MockTransport(respond))
    with hasse, pytest.raises(UnreadableError):
        hasse.add_image(path)
    assert 'filename="caf\ufffd.png"'.encode() in sent[0]


def test_an_error_passes_from_one_process_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = problem(429, **{"Retry-After": "11"})
    with pytest.raises(BusyError) as raised:
        Waits(monkeypatch, answer).client().ready()
    other = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert type(other) is BusyError
    assert str(other) == "no (x, request 7)"
    assert (other.problem, other.retry_after) == (raised.value.problem, 11)


def test_one_caption_is_not_taken_for_its_letters() -> None:
    with Client() as hasse:
        for ask in (
            lambda: hasse.search_images_together("dog"),
            lambda: hasse.search_all_of("dog"),
            lambda: hasse.search_common("dog"),
            lambda: hasse.search_like(7, "dog"),
            lambda: hasse.search_like(7, [8], "dog"),
            lambda: hasse.add_image(png(1), "dog"),
        ):
            with pytest.raises(TypeError, match="into a list"):
                ask()


def test_a_removal_whose_answer_was_lost_is_a_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = httpx.ReadError("reset", request=httpx.Request("DELETE", "/"))
    Waits(monkeypatch, lost, problem(404)).client().remove_image(7)
    with pytest.raises(NotFoundError):
        Waits(monkeypatch, problem(404)).client().remove_image(7)
    with pytest.raises(UnreadableError):
        Waits(monkeypatch, lost, httpx.Response(404, text="nginx")).client().remove_image(7)


def test_a_removal_that_was_put_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = problem(429, **{"Retry-After": "0"})
    with pytest.raises(NotFoundError):
        Waits(monkeypatch, busy, problem(404)).client().remove_image(7)
    passing = problem(503, **{"Retry-After": "0"})
    Waits(monkeypatch, passing, busy, problem(404)).client().remove_image(7)


def test_fields_of_a_later_release_are_passed_over(client: InProcess) -> None:
    answer = client.post("/search/images", json={"caption": "a dog", "k": 2}).json()
    answer["since then"] = 1
    answer["hits"][0]["since then"] = 1

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=answer)

    with Client(transport=httpx.MockTransport(respond)) as hasse:
        assert len(hasse.search_images("a dog").hits) == 2


def test_a_key_goes_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str | None] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return LIVE

    for key in (None, "", "k"):
        with Client(key=key, transport=httpx.MockTransport(respond)) as hasse:
            hasse.live()
    assert sent == [None, None, "Bearer k"]


def test_a_key_is_shown_beside_the_password_in_an_address(app: InProcess) -> None:
    async def change() -> None:
        for who in ("any:password@", "any@", ":password@"):
            transport = httpx.ASGITransport(app.app)
            async with AsyncClient(f"http://{who}hasse.test", KEY, transport=transport) as hasse:
                with pytest.raises(NotFoundError):
                    await hasse.remove_image(77)

    app.run(change())


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8000", "localhost:8000", "http:/127.0.0.1", "ftp://a", "http://a:b"),
        *("http://a/?q=a+dog", "http://a/?"),
    ],
)
def test_where_nothing_can_be_asked_no_client_is_made(
    client: Callable[[str], object], url: str
) -> None:
    with pytest.raises(
        ValueError, match=r"no address of a service, such as http://127\.0\.0\.1:8000"
    ):
        client(url)


def test_a_password_in_the_address_is_sent_and_not_told() -> None:
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


@pytest.mark.parametrize("key", [" ", "hasse_secret\n", "hasse_secret\u00fc"])
def test_what_no_header_holds_is_no_key_and_is_not_told(key: str) -> None:
    with pytest.raises(ValueError, match="no key") as raised:
        Client(key=key)
    assert "secret" not in str(raised.value)
