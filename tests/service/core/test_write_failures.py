"""Writes that fail, compete or wait too long: nothing is lost, and the answer says so."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hasse.index import durable
from hasse.index.errors import IndexLockedError
from hasse.index.segments import stored_pictures
from hasse.index.segments.loading import Loader
from hasse.index.verify import verify
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem
from tests.service.uploads import add, added, found


def test_add_after_writer_stopped_is_not_ready(writable: Client) -> None:
    writable.engine.writing.batcher.close()
    assert "writer" in problem(add(writable, png(50)), 503, "not_ready").detail


def test_remove_image_whose_file_cannot_be_deleted_succeeds(
    writable: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = added(add(writable, png(50)))

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable, "remove", broken)
    assert writable.request("DELETE", f"/images/{image.image_id}").status_code == 204
    problem(writable.get(f"/images/{image.image_id}"), 404, "not_found")
    assert writable.get("/version").json()["images"] == 12
    monkeypatch.undo()
    assert list(folder.glob("pictures/*/*"))
    assert added(add(writable, png(50))).image_id > image.image_id
    assert verify(folder).ok


class FullDisk:
    """The disk has room for so many writes, and then none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.refused = False
        self._room = room
        for name in ("write", "sync", "rename"):
            monkeypatch.setattr(durable, name, self._limited(getattr(durable, name)))

    def _limited(self, verb: Any) -> Any:
        def limited(*args: Any) -> None:
            self._room -= 1
            if self._room < 0:
                self.refused = True
                raise OSError(errno.ENOSPC, "No space left on device")
            verb(*args)

        return limited


def test_add_with_full_disk_at_any_write_changes_nothing(
    writable: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in range(100):
        disk = FullDisk(monkeypatch, room)
        response = add(writable, png(50), caption="a dog")
        monkeypatch.undo()
        if not disk.refused:
            break
        said = problem(response, 507, "disk_full")
        assert str(folder) not in response.text
        assert "searches go on" in said.detail
        assert len(found(writable)) == 12
        assert not [path for path in folder.glob("pictures/*/*") if path.is_file()]
    assert room > 5
    added(response)
    assert len(found(writable)) == 13
    assert verify(folder).ok


def test_add_with_failing_disk_changes_nothing(
    writable: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable, "write", broken)
    response = add(writable, png(50))
    monkeypatch.undo()
    assert "Input" not in problem(response, 503, "write_failed").detail
    assert response.headers["Retry-After"] == "5"
    assert len(found(writable)) == 12
    assert verify(folder).ok


def test_write_that_cannot_be_loaded_yet_succeeds_and_is_seen_later(
    writable: Client,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Loader, "load", broken)
    image = added(add(writable, png(50), caption="a dog"))
    assert writable.request("DELETE", "/images/1001").status_code == 204
    search = writable.post("/search/images", json={"caption": "a dog", "k": 100})
    assert "cannot be loaded yet" in problem(search, 503, "not_ready").detail
    monkeypatch.undo()
    assert caplog.messages.count("refresh failed") >= 2
    assert writable.get(f"/images/{image.image_id}/file").content == png(50)
    writable.engine.index.refresh()
    assert image.image_id in found(writable)
    assert 1001 not in found(writable)
    assert verify(folder).ok


def test_add_while_another_process_writes_gets_retry_after(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **_named: object) -> None:
        raise IndexLockedError("another process is writing to the index /secret")

    monkeypatch.setattr(writable.engine.index, "writing", locked)
    response = add(writable, png(50))
    said = problem(response, 503, "write_failed")
    assert "secret" not in said.detail
    assert response.headers["retry-after"] == "5"


def test_write_after_catalog_file_is_deleted_is_unreachable(writable: Client, folder: Path) -> None:
    before = found(writable)
    (folder / "catalog.db").unlink()
    problem(add(writable, png(50)), 503, "catalog_unreachable")
    problem(writable.request("DELETE", "/images/1001"), 503, "catalog_unreachable")
    assert found(writable) == before


@contextmanager
def two_services(folder: Path) -> Iterator[tuple[Client, Client]]:
    """Serve one index twice, to whoever writes."""
    settings = Settings(library=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as one, Client(create_app(settings)) as other:
        yield one, other


def test_add_same_picture_to_two_services_makes_one_image(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Future[Any]] = []
    with two_services(folder) as (one, other), ThreadPoolExecutor(1) as pool:
        write = stored_pictures.store

        def keep(*picture: Any) -> str:
            monkeypatch.setattr(stored_pictures, "store", write)
            theirs.append(pool.submit(add, other, png(50)))
            while not (theirs[0].done() or other.engine.writing.batcher.busy_seconds()):
                time.sleep(0.01)
            return write(*picture)

        monkeypatch.setattr(stored_pictures, "store", keep)
        mine = added(add(one, png(50)))
        assert added(theirs[0].result(), 200).image_id == mine.image_id
        assert one.get(f"/images/{mine.image_id}/file").content == png(50)
    assert verify(folder).ok


def test_add_picture_while_another_service_removes_it_keeps_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Future[Any]] = []
    with two_services(folder) as (one, other), ThreadPoolExecutor(1) as pool:
        gone = added(add(one, png(50)))
        remove = durable.remove

        def removed(path: Path) -> None:
            if stored_pictures.PICTURES in path.parts and not theirs:
                theirs.append(pool.submit(add, other, png(50)))
                wait(theirs, timeout=0.5)  # which is for the picture to be gone
            remove(path)

        monkeypatch.setattr(durable, "remove", removed)
        assert one.request("DELETE", f"/images/{gone.image_id}").status_code == 204
        image = added(theirs[0].result())
        assert other.get(f"/images/{image.image_id}/file").content == png(50)
    assert verify(folder).ok


def test_writes_batched_behind_a_lock_are_refused_together(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = writable.engine
    free, waits = threading.Event(), []

    def locked(*_: object, **_named: object) -> None:
        waits.append(free.wait(60))
        raise IndexLockedError("another process is writing to the index /secret")

    monkeypatch.setattr(engine.index, "writing", locked)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(add, writable, png(50))
        while not engine.writing.batcher.busy_seconds():
            time.sleep(0.01)
        others = [pool.submit(add, writable, png(51 + at)) for at in range(3)]
        while engine.writing.batcher.waiting < 3:
            time.sleep(0.01)
        free.set()
        for response in (first, *others):
            problem(response.result(), 503, "write_failed")
    assert len(waits) == 2


def test_start_sweeps_old_pictures_of_a_killed_writer(
    folder: Path,
) -> None:
    settings = Settings(library=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    left = folder / stored_pictures.store(folder, png(51), "ab" * 32, ".png")
    with Client(create_app(settings)):
        assert left.exists()  # another process may be about to name it
    os.utime(left, (0, 0))
    with Client(create_app(settings)) as client:
        assert not left.exists()
        assert client.get(image.image_url).status_code == 200


def test_verify_names_stored_picture_that_was_changed_or_lost(
    writable: Client, folder: Path
) -> None:
    added(add(writable, png(50)))
    (path,) = folder.glob("pictures/*/*")
    path.write_bytes(png(51))
    (finding,) = verify(folder).findings
    assert str(path) in finding
    assert "was changed" in finding
    path.unlink()
    (finding,) = verify(folder).findings
    assert "is missing" in finding


@pytest.mark.parametrize("seconds", [0.5, 60])
def test_write_beyond_its_deadline_is_late_and_counts_as_in_flight_until_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    limits: dict[str, Any] = {"writes_in_flight": 1, "write_seconds": seconds}
    settings = Settings(library=folder, device="cpu", open_writes=True, **limits)
    free = threading.Event()
    with Client(create_app(settings)) as client, ThreadPoolExecutor(1) as pool:
        engine = client.engine
        hold = engine.index.writing

        def slowly(timeout: float) -> Any:
            free.wait(60)
            return hold(timeout)

        monkeypatch.setattr(engine.index, "writing", slowly)
        try:
            first = pool.submit(add, client, png(50))
            if seconds < 1:
                said = problem(first.result(), 503, "late")
                assert said.detail == "the answer did not come within 0.5 seconds"
            else:
                while not engine.writing.batcher.busy_seconds():
                    time.sleep(0.01)
                problem(client.request("DELETE", "/images/1000"), 429, "busy")
        finally:
            free.set()


def test_add_more_than_in_flight_limit_gets_retry_after(folder: Path) -> None:
    settings = Settings(library=folder, device="cpu", open_writes=True, writes_in_flight=1)
    with Client(create_app(settings)) as client:

        async def together() -> list[Any]:
            return await asyncio.gather(
                *(
                    client.http.post("/images", files={"image": ("a.png", png(50 + at))})
                    for at in range(6)
                )
            )

        answers = client.run(together())
        statuses = {one.status_code for one in answers}
        assert statuses == {201, 429}
        created = {one.json()["image_id"] for one in answers if one.status_code == 201}
        assert found(client) == set(range(1000, 1012)) | created
        for one in answers:
            if one.status_code == 429:
                problem(one, 429, "busy")
                assert int(one.headers["retry-after"]) >= 1
