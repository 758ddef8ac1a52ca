"""How an engine opens, on what it refuses to, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from hasse.index.errors import CatalogUnreachableError
from hasse.index.segments import file_checks, segment
from hasse.index.segments.writer import LOCK
from hasse.index.store import Index
from hasse.service.app import create_app
from hasse.service.core import loading
from hasse.service.core.engine import Engine
from hasse.service.core.readiness import Phase
from hasse.service.http.services import services_of
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.service.problems import problem


@pytest.mark.torch
def test_engine_that_cannot_open_reports_one_sentence(collection: Path, tmp_path: Path) -> None:
    for settings, words in (
        (Settings(library=tmp_path / "none"), "there is no library in"),
        (Settings(library=collection, model=tmp_path / "none"), "holds no model of retrieval"),
        (Settings(library=collection, device="cuda:99"), "has no cuda:99"),
    ):
        failures: list[str] = []
        app = create_app(settings, on_failure=failures.append)
        with Client(app, wait=False) as client:
            while not failures:  # told last, after the phase has changed
                client.run(asyncio.sleep(0.01))
            assert services_of(app).readiness.phase is Phase.FAILED
            assert words in failures[0]
            found = problem(client.get("/readyz"), 503, "not_ready")
            assert str(tmp_path) not in found.detail
            problem(client.post("/search/images", json={"caption": "a"}), 503, "not_ready")


def test_damage_of_a_large_segment_ends_a_service_that_answered_before_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, gate = make_collection(tmp_path / "collection"), threading.Event()
    for module in (segment, file_checks):
        monkeypatch.setattr(module, "LARGE_BYTES", 1)
    compare = segment.check_file

    def later(*given: Any) -> None:
        assert gate.wait(60)
        compare(*given)

    monkeypatch.setattr(file_checks, "check_file", later)
    path = next(collection.glob(f"segments/image-*/{segment.POINTS}"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    failures: list[str] = []
    settings = Settings(library=collection, device="cpu", refresh_seconds=0.01)
    app = create_app(settings, on_failure=failures.append)
    with Client(app) as client:
        assert client.get("/readyz").json()["checks"]["checksums"] == "comparing"
        assert client.post("/search/images", json={"caption": "a"}).status_code == 200
        gate.set()
        while not failures:
            client.run(asyncio.sleep(0.01))
        assert f"{path} was changed since it was written" in failures[0]
        problem(client.get("/readyz"), 503, "not_ready")


@pytest.mark.parametrize("step", ["ModelLoader._load_of", "sweep", "warm"])
def test_engine_that_cannot_open_closes_its_index(
    collection: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    let_go: list[Index] = []
    close = Index.close

    def closed(index: Index) -> None:
        let_go.append(index)
        close(index)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Index, "close", closed)
    monkeypatch.setattr(f"{loading.__name__}.{step}", fail)
    with pytest.raises(RuntimeError, match="broken"):
        Engine.open(Settings(library=collection, device="cpu"))
    assert len(let_go) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_engine_opens_where_leftovers_cannot_be_removed(
    collection: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened = Path.open

    def no_lock(path: Path, mode: str = "r", *how: Any, **more: Any) -> Any:
        if path.name == LOCK:
            raise OSError(number, "there is none")
        return opened(path, mode, *how, **more)

    monkeypatch.setattr(Path, "open", no_lock)
    Engine.open(Settings(library=collection, device="cpu")).close()


def test_engine_opens_while_another_process_writes(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu")
    with Index.open(collection) as other, other.writing():
        Engine.open(settings).close()


def test_start_that_fails_after_a_stop_reports_no_failure(collection: Path) -> None:
    stopping, failures = threading.Event(), list[str]()

    def unreachable(*_: object) -> Engine:
        assert stopping.wait(60)
        raise CatalogUnreachableError("the catalog does not answer")

    app = create_app(Settings(library=collection, device="cpu"), unreachable, failures.append)
    with Client(app, wait=False) as client:
        assert client.get("/readyz").status_code == 503
        services_of(app).readiness.phase = Phase.STOPPING  # as SIGTERM does
        stopping.set()
    assert failures == []


def test_engine_with_an_index_of_another_model_is_refused(collection: Path, tmp_path: Path) -> None:
    from hasse.index.errors import ModelMismatchError
    from tests.tiny import tiny_checkpoint

    other = tiny_checkpoint(tmp_path / "other", seed=1)
    with pytest.raises(ModelMismatchError, match="was made by the model 'tiny'"):
        Engine.open(Settings(library=collection, model=other, device="cpu"))


def test_start_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    left = folder / "segments" / "half-written"
    left.mkdir()
    (left / "points").write_bytes(b"half")
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        assert client.get("/readyz").status_code == 200
    assert not left.exists()


def test_index_in_a_read_only_folder_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_collection(tmp_path)
    opened = Path.open

    def refused(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        # Tests may run as root, whom permissions do not stop.
        if folder in path.parents and not mode.startswith("r"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", refused)
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        assert client.get("/readyz").status_code == 200
        answer = client.post("/search/images", json={"caption": "a dog"}).json()
        assert answer["searched"] == 12


def test_collection_without_captions_is_served(tmp_path: Path) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        assert client.get("/readyz").status_code == 200
        (hit,) = client.post("/search/images", json={"caption": "a dog", "k": 1}).json()["hits"]
        assert hit["captions"] == []
        answer = client.post("/search/captions", files={"image": ("a.png", png(1))}).json()
        assert (answer["hits"], answer["searched"], answer["certified"]) == ([], 0, True)


def test_close_leaves_no_threads(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu")
    with Client(create_app(settings)) as client:
        client.post("/search/images", json={"caption": "a dog"})
    before = set(threading.enumerate())
    for _ in range(2):
        with Client(create_app(settings)) as client:
            client.post("/search/images", json={"caption": "a dog"})
            client.post("/search/captions", files={"image": ("a.png", png(1))})
    # A thread that was told to end may still be on its way out.
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before
