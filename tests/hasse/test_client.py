"""The client, against the real application."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from hasse import (
    AccessError,
    AsyncClient,
    Client,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnreadableError,
    UnsendableError,
)
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.schemas import milliseconds
from hasse.service.settings import Settings
from tests.service.client import Client as InProcess
from tests.service.collection import make_collection, png

KEY = new_key()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = make_collection(tmp_path_factory.mktemp("client"))
    settings = Settings(library=folder, device="cpu", write_keys=f"a:{fingerprint(KEY)}")
    with InProcess(create_app(settings)) as running:
        yield running


def asking(app: InProcess, key: str | None = None) -> AsyncClient:
    return AsyncClient("http://hasse.test", key, transport=httpx.ASGITransport(app.app))


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "search_images": lambda hasse: hasse.search_images("a dog", k=3),
    "search_images_together": lambda hasse: hasse.search_images_together(["a dog"], k=3),
    "search_captions": lambda hasse: hasse.search_captions(png(1), image_ids=[7, 8]),
    "search_similar": lambda hasse: hasse.search_similar(png(1), image_ids=[7, 8]),
    "search_all_of": lambda hasse: hasse.search_all_of(["a dog", 7], offset=3),
    "search_common": lambda hasse: hasse.search_common(["a dog", 7], split="new"),
    "search_like": lambda hasse: hasse.search_like(7, ["a dog"], ["a cat"], mode="exact"),
    "entails": lambda hasse: hasse.entails(7, "a dog"),
    "entails_together": lambda hasse: hasse.entails_together([(7, "a dog")]),
    "describe": lambda hasse: hasse.describe(7, k=2),
    "embed": lambda hasse: hasse.embed(["a dog"]),
    "embed_picture": lambda hasse: hasse.embed_picture(png(1)),
    "diagram": lambda hasse: hasse.diagram("a dog"),
    "image": lambda hasse: hasse.image(7),
    "caption": lambda hasse: hasse.caption(8),
    "picture": lambda hasse: hasse.picture(7),
    "thumbnail": lambda hasse: hasse.thumbnail(7),
    "add_image": lambda hasse: hasse.add_image(png(1), ["a dog"], image_id=0, split="new"),
    "annotate": lambda hasse: hasse.annotate([7, 8], ["a dog"], ["Rex"]),
    "unannotate": lambda hasse: hasse.unannotate([7, 8], ["a dog"], ["Rex"]),
    "remove_image": lambda hasse: hasse.remove_image(7),
    "saved_searches": lambda hasse: hasse.saved_searches(),
    "saved_search": lambda hasse: hasse.saved_search("dogs"),
    "save_search": lambda hasse: hasse.save_search("dogs & cats?", "a dog", evidence="says"),
    "note_looked": lambda hasse: hasse.note_looked("dogs"),
    "remove_search": lambda hasse: hasse.remove_search("dogs"),
    "live": lambda hasse: hasse.live(),
    "ready": lambda hasse: hasse.ready(),
    "version": lambda hasse: hasse.version(),
    "metrics": lambda hasse: hasse.metrics(),
}


def test_both_clients_send_the_same_requests() -> None:
    sent: list[tuple[str, str, bytes]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        _, _, boundary = request.headers.get("Content-Type", "").partition("boundary=")
        content = request.read().replace(boundary.encode() or b"\0", b"")
        sent.append((request.method, str(request.url), content))
        return httpx.Response(404)

    async def wait(ask: Callable[[Any], Any]) -> None:
        async with AsyncClient(transport=httpx.MockTransport(respond)) as hasse:
            await ask(hasse)

    assert set(QUESTIONS) == {name for name in dir(Client) if name[0] != "_"} - {"close", "make"}
    for ask in QUESTIONS.values():
        with Client(transport=httpx.MockTransport(respond)) as hasse:
            with pytest.raises(UnreadableError):
                ask(hasse)
            with pytest.raises(UnreadableError):
                asyncio.run(wait(ask))
    assert sent[::2] == sent[1::2]
    assert len(set(sent)) == len(QUESTIONS)


def test_every_call_is_answered_with_types(app: InProcess, tmp_path: Path) -> None:
    async def served(path: str, **body: Any) -> Any:
        return (await app.http.post(path, json=body)).json()

    async def ask() -> None:
        async with asking(app) as hasse:
            found = await hasse.search_images("a dog", k=3, evidence="shows")
            assert [hit.rank for hit in found.hits] == [1, 2, 3]
            together = await hasse.search_images_together(["a dog", "a cat"], k=3, mode="exact")
            assert [hit.image_id for hit in together[0].hits] == [
                hit.image_id for hit in found.hits
            ]
            path = tmp_path / "a.png"
            path.write_bytes(png(1))
            options: dict[str, Any] = {
                "k": 5,
                "image_ids": [1000, 1001],
                "offset": 1,
                "distinct": False,
                "written": True,
            }
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


def test_searches_are_kept_run_and_forgotten(app: InProcess) -> None:
    async def keep() -> None:
        async with asking(app, KEY) as hasse:
            name = "dogs & cats? 100 %"
            kept = await hasse.save_search(name, "a dog", k=3)
            assert await hasse.saved_searches() == [kept]
            found = await hasse.saved_search(name)
            assert (found.name, len(found.answer.hits), found.new_image_ids) == (name, 3, [])
            await hasse.note_looked(name)
            await hasse.remove_search(name)
            assert await hasse.saved_searches() == []

    app.run(keep())


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


def test_problem_is_raised_as_its_class(app: InProcess) -> None:
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


def test_async_client_reads_files_outside_the_event_loop(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (datetime(2026, 7, 1, 12), "2026-07-01T10:00:00+00:00"),
        (datetime(1880, 1, 1), "1879-12-31T23:06:32+00:00"),  # when noon was the sun's
        (datetime.min.replace(tzinfo=UTC), "0001-01-01T00:00:00+00:00"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_time_is_sent_as_the_service_reads_it(
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


def test_time_that_utc_does_not_have_is_unsendable() -> None:
    beyond = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
    with (
        Client() as hasse,
        pytest.raises(UnsendableError, match="added_before cannot"),
    ):
        hasse.search_images("a dog", added_before=beyond)


def test_file_name_that_is_no_text_is_sent_replaced(tmp_path: Path) -> None:
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


def test_single_caption_for_several_is_a_type_error() -> None:
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


def test_answer_with_fields_of_a_later_release_is_read(app: InProcess) -> None:
    answer = app.post("/search/images", json={"caption": "a dog", "k": 2}).json()
    answer["since then"] = 1
    answer["hits"][0]["since then"] = 1

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=answer)

    with Client(transport=httpx.MockTransport(respond)) as hasse:
        assert len(hasse.search_images("a dog").hits) == 2


def test_key_goes_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str | None] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"status": "alive"})

    for key in (None, "", "k"):
        with Client(key=key, transport=httpx.MockTransport(respond)) as hasse:
            hasse.live()
    assert sent == [None, None, "Bearer k"]


def test_key_is_sent_beside_a_password_in_the_address(app: InProcess) -> None:
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
def test_client_of_no_address_is_refused(client: Callable[[str], object], url: str) -> None:
    with pytest.raises(
        ValueError, match=r"no address of a service, such as http://127\.0\.0\.1:8000"
    ):
        client(url)


@pytest.mark.parametrize("key", [" ", "hasse_secret\n", "hasse_secret\u00fc"])
def test_key_that_no_header_holds_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="no key") as raised:
        Client(key=key)
    assert "secret" not in str(raised.value)
