"""The engine under faults: one item's trouble stays its own, and health tells the truth."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hasse.index.errors import CatalogUnreachableError
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.core.engine import Engine
from hasse.service.core.readiness import Phase
from hasse.service.http.middleware import CLIENT_GONE
from hasse.service.http.services import services_of
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, picture, png
from tests.service.problems import problem


class Faults:
    """A real engine whose model and index can be made to misbehave."""

    def __init__(self) -> None:
        self.poison: str | None = None
        self.death: type[BaseException] | None = None
        self.not_finite = False
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[str]] = []

    def open(self, *parts: Any) -> Engine:
        engine = Engine.open(*parts)
        model = engine.checkpoint.model
        encode = model.encode_captions

        def encode_captions(texts: Sequence[str], batch_size: int = 256) -> NDArray[np.float32]:
            self.batches.append(list(texts))
            assert self.gate.wait(60)
            if self.death is not None:
                raise self.death
            if self.poison in texts:
                raise RuntimeError("CUDA error: device-side assert triggered")
            points = encode(texts, batch_size)
            return points * np.nan if self.not_finite else points

        model.encode_captions = encode_captions  # type: ignore[method-assign]
        return engine


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def faulty(
    collection: Path, faults: Faults, failures: list[str], request: pytest.FixtureRequest
) -> Iterator[Client]:
    """A service with these faults; a test may give its deadline, and a stall is half of it."""
    deadline = getattr(request, "param", 60.0)
    settings = Settings(
        library=collection,
        device="cpu",
        in_flight=4,
        queued=2,
        deadline_seconds=deadline,
        ready_seconds=0.0,
        stall_seconds=deadline / 2,
    )
    with Client(create_app(settings, faults.open, failures.append)) as client:
        yield client
        faults.gate.set()


async def ask(client: Client, caption: str = "a dog") -> Any:
    return await client.http.post("/search/images", json={"caption": caption, "k": 1})


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.002)


def test_search_whose_caption_makes_the_model_raise_fails_alone(
    faulty: Client, faults: Faults
) -> None:
    faults.poison = "a cat"
    faults.gate.clear()

    async def together() -> list[Any]:
        asking = [asyncio.create_task(ask(faulty, "a"))]
        await until(lambda: faults.batches == [["a"]])
        asking += [asyncio.create_task(ask(faulty, c)) for c in ("a dog", "a cat", "a child")]
        await until(lambda: faulty.engine.encoder.batcher.waiting == 3)
        faults.gate.set()
        return await asyncio.gather(*asking)

    first, dog, cat, child = faulty.run(together())
    assert [first.status_code, dog.status_code, child.status_code] == [200, 200, 200]
    found = problem(cat, 500, "encoding_failed")
    assert "CUDA" not in found.detail
    assert faults.batches[1] == ["a dog", "a cat", "a child"]
    assert faulty.get("/readyz").status_code == 200


def test_search_with_points_that_are_not_finite_is_encoding_failed(
    faulty: Client, faults: Faults
) -> None:
    faults.not_finite = True
    problem(faulty.post("/search/images", json={"caption": "a dog"}), 500, "encoding_failed")


@pytest.mark.parametrize(("verb", "thread"), [("search_batch", "search"), ("writing", "writer")])
def test_service_whose_worker_dies_reports_failure(
    tmp_path: Path, failures: list[str], verb: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(library=make_collection(tmp_path), device="cpu", open_writes=True)

    def die(*_: object, **__: object) -> None:
        raise SystemExit

    with Client(create_app(settings, on_failure=failures.append)) as client:
        monkeypatch.setattr(client.engine.index, verb, die)
        question: dict[str, Any] = {
            "search": {"path": "/search/images", "json": {"caption": "a dog"}},
            "writer": {"path": "/images", "files": {"image": ("a.png", png(50))}},
        }[thread]
        for _ in range(2):  # the one that it dies of, and one that comes after
            found = problem(client.post(**question), 503, "not_ready")
            assert found.detail == f"the {thread} has stopped"
        if thread == "search":
            assert "the search has stopped" in client.get("/readyz").json()["detail"]
    assert failures == ["a worker ended unexpectedly; see the log"]


def test_readiness_with_a_dead_worker_fails_and_ends_the_service(
    faulty: Client, faults: Faults, failures: list[str]
) -> None:
    faults.death = SystemExit
    problem(faulty.post("/search/images", json={"caption": "a dog"}), 503, "not_ready")
    problem(faulty.get("/readyz"), 503, "not_ready")
    problem(faulty.post("/search/images", json={"caption": "a dog"}), 503, "not_ready")
    assert faulty.get("/livez").status_code == 200
    assert len(failures) == 1


@pytest.mark.parametrize("faulty", [1.0], indirect=True)
def test_readiness_with_a_model_that_hangs_fails_and_searches_are_late(
    faulty: Client, faults: Faults
) -> None:
    faults.gate.clear()
    problem(faulty.post("/search/images", json={"caption": "a dog"}), 503, "late")
    found = problem(faulty.get("/readyz"), 503, "not_ready")
    assert "hangs" in found.detail
    faults.gate.set()
    faulty.run(until(lambda: not faulty.engine.encoder.batcher.busy_seconds()))
    assert faulty.post("/search/images", json={"caption": "a dog"}).status_code == 200
    assert faulty.get("/readyz").status_code == 200


def test_probe_without_an_answer_names_the_stage_in_time(faulty: Client, faults: Faults) -> None:
    faulty.engine.probe_seconds = 0.1
    faults.gate.clear()
    found = problem(faulty.get("/readyz"), 503, "not_ready")
    assert found.detail == "the caption encoder did not answer a probe in time"
    assert found.status == 503


def test_readiness_asked_for_together_makes_one_probe_and_reports_a_stop(
    collection: Path, faults: Faults
) -> None:
    faults.gate.clear()
    settings = Settings(library=collection, device="cpu", ready_seconds=600)

    async def together(client: Client) -> list[Any]:
        asking = [asyncio.create_task(client.http.get("/readyz")) for _ in range(5)]
        await until(lambda: bool(faults.batches))
        await asyncio.sleep(0.05)
        faults.gate.set()
        return await asyncio.gather(*asking)

    async def stopped_meanwhile(client: Client) -> Any:
        asking = asyncio.create_task(client.http.get("/readyz"))
        await until(lambda: bool(faults.batches))
        client.services.readiness.phase = Phase.STOPPING
        faults.gate.set()
        return await asking

    with Client(create_app(settings, faults.open)) as client:
        assert {answer.status_code for answer in client.run(together(client))} == {200}
        assert faults.batches == [["a"]]
    faults.gate.clear()
    faults.batches.clear()
    with Client(create_app(settings, faults.open)) as client:
        found = problem(client.run(stopped_meanwhile(client)), 503, "not_ready")
        assert found.detail == Phase.STOPPING.value


def test_search_with_a_full_queue_is_busy_with_retry_after(faulty: Client, faults: Faults) -> None:
    faults.gate.clear()

    async def burst() -> list[Any]:
        asking = [asyncio.create_task(ask(faulty)) for _ in range(20)]
        await until(lambda: sum(task.done() for task in asking) == 14)
        numbers = faulty.services.metrics.text().decode().splitlines()
        assert {"hasse_in_flight 4.0", "hasse_queue_length 2.0"} <= set(numbers)
        faults.gate.set()
        return await asyncio.gather(*asking)

    answers = faulty.run(burst())
    assert sorted(answer.status_code for answer in answers) == [200] * 6 + [429] * 14
    for answer in answers:
        if answer.status_code == 429:
            problem(answer, 429, "busy")
            assert int(answer.headers["retry-after"]) >= 1
    assert faulty.post("/search/images", json={"caption": "a dog"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/search/images", {"caption": "a cat"}),
        ("/search/images/batch", {"captions": ["a cat"]}),
        ("/search/all_of", {"all_of": ["a cat"]}),
        ("/search/common", {"common": ["a cat"]}),
        ("/search/like", {"like": "a cat", "plus": ["a cat"]}),
        ("/entails", {"premise": 1000, "hypothesis": "a cat"}),
        ("/entails/batch", {"pairs": [{"premise": "a cat", "hypothesis": "a cat"}]}),
        ("/diagram", None),
    ],
)
def test_request_whose_client_disconnects_cancels_its_work(
    faulty: Client, faults: Faults, path: str, asked: Any
) -> None:
    faults.gate.clear()

    async def leave() -> None:
        app = faulty.app
        admission = services_of(app).engine.admission
        first = asyncio.create_task(ask(faulty, "a"))
        await until(lambda: faults.batches == [["a"]])
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        body = json.dumps(asked).encode()
        messages.put_nowait({"type": "http.request", "body": body, "more_body": False})

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 499

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST" if asked else "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"" if asked else b"caption=a%20cat",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        leaving = asyncio.create_task(app(scope, messages.get, send))
        await until(lambda: admission.in_flight == 2)
        leaving.cancel(CLIENT_GONE)
        await leaving
        assert admission.in_flight == 1
        faults.gate.set()
        assert (await first).status_code == 200

    faulty.run(leave())
    assert faulty.post("/search/images", json={"caption": "a dog"}).status_code == 200
    assert ["a cat"] not in faults.batches


def test_searches_together_have_the_answers_of_searches_alone(client: Client) -> None:
    captions = ["a dog", "a cat runs", "the red park", "a " * 60, "a zorp", "a child in the park"]
    options: list[dict[str, Any]] = [
        {},
        {"k": 3},
        {"mode": "exact"},
        {"max_violation": 0.5},
        {"mode": "fast", "k": 2},
    ]
    queries = [{"caption": caption, **option} for caption in captions for option in options]

    async def together() -> list[Any]:
        return await asyncio.gather(
            *(client.http.post("/search/images", json=query) for query in queries)
        )

    for query, answer in zip(queries, client.run(together()), strict=True):
        alone = client.post("/search/images", json=query)
        for ours, theirs in zip(answer.json()["hits"], alone.json()["hits"], strict=True):
            assert ours["image_id"] == theirs["image_id"]
            assert ours["violation"] == pytest.approx(theirs["violation"], abs=1e-6)


def test_searches_with_the_smallest_batches_have_the_same_answers(
    client: Client, collection: Path
) -> None:
    sizes: dict[str, Any] = dict.fromkeys(
        ("caption_batch", "picture_batch", "search_batch", "in_flight"), 1
    )
    settings = Settings(library=collection, device="cpu", queued=0, search_workers=2, **sizes)
    questions: list[tuple[str, Any]] = [
        ("/search/images/batch", {"json": {"captions": ["a dog", "a cat", "a child"]}}),
        ("/search/all_of", {"json": {"all_of": ["a dog", "a cat", "a child"]}}),
        ("/search/captions", {"files": {"image": ("a.png", png(1))}}),
    ]
    with Client(create_app(settings)) as small:
        for path, how in questions:
            ours, theirs = small.post(path, **how).json(), client.post(path, **how).json()
            ours, theirs = (one.get("answers", [one]) for one in (ours, theirs))
            for mine, usual in zip(ours, theirs, strict=True):
                assert [hit["image_id"] for hit in mine["hits"]] == [
                    hit["image_id"] for hit in usual["hits"]
                ]


def test_search_for_more_hits_than_k_maximum_is_invalid(collection: Path) -> None:
    questions: list[tuple[str, str, dict[str, Any]]] = [
        ("/search/images", "json", {"caption": "a dog"}),
        ("/search/images/batch", "json", {"captions": ["a dog"]}),
        ("/search/all_of", "json", {"all_of": ["a dog"]}),
        ("/search/common", "json", {"common": ["a dog"]}),
        ("/search/like", "json", {"like": "a dog", "plus": ["a cat"]}),
        ("/search/captions", "data", {}),
    ]
    with Client(create_app(Settings(library=collection, device="cpu", k_maximum=5))) as client:
        for path, way, question in questions:
            how = {"files": {"image": ("a.png", png(1))}} if way == "data" else {}
            assert client.post(path, **how, **{way: question | {"k": 5}}).status_code == 200
            found = problem(client.post(path, **how, **{way: question | {"k": 6}}), 422, "invalid")
            assert found.detail == "k: this service gives at most 5 hits"


def test_search_after_another_process_wrote_sees_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_collection(tmp_path)
    settings = Settings(library=folder, device="cpu", refresh_seconds=0.02, compact_seconds=0)

    def found(client: Client) -> tuple[int, set[int]]:
        answer = client.post("/search/images", json={"caption": "a dog", "k": 100}).json()
        return answer["generation"], {hit["image_id"] for hit in answer["hits"]}

    with Client(create_app(settings)) as client:
        engine = client.engine
        generation, before = found(client)
        with Index.open(folder, threads=1) as other:
            point = engine.checkpoint.model.encode_images([picture(99)])
            other.add([ImageRow(7, "new.png", "new.png")], point)
            other.remove([1000])
        client.run(until(lambda: engine.info.generation == generation + 2))
        assert found(client) == (generation + 2, before - {1000} | {7})
        problem(client.get("/images/1000"), 404, "not_found")
        assert client.get("/version").json()["captions"] == engine.info.captions == 22

        refresh = engine.index.refresh

        def unreachable_once() -> None:
            monkeypatch.setattr(engine.index, "refresh", refresh)
            raise CatalogUnreachableError("the catalog does not answer")

        monkeypatch.setattr(engine.index, "refresh", unreachable_once)
        with Index.open(folder, threads=1) as other:
            other.remove([1001])
        client.run(until(lambda: engine.info.generation == generation + 3))


def test_engine_has_at_most_fifteen_public_methods() -> None:
    public = {name for name in vars(Engine) if not name.startswith("_")}
    assert len(public) <= 15, public
