"""Pictures come and go: durable before the answer, seen by the next search."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from index import durable
from index.errors import IndexLockedError
from index.segments import stored_pictures
from index.segments.loading import Loader
from index.store import Index
from index.types import CaptionRow, ImageRow
from index.verify import verify
from models.checkpoints import checkpoint
from models.datasets import Dataset
from models.datasets import Image as Described
from service.app import create_app
from service.core.pictures import picture_missing
from service.pipelines import indexing
from service.pipelines.dataset_encoding import ImageSource
from service.schemas import ID_MAXIMUM, AddedImage, CaptionAnswer, ImageAnswer
from service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.service.hostile_pictures import encoded
from tests.service.problems import problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_collection(tmp_path)


@pytest.fixture
def writable(folder: Path) -> Iterator[Client]:
    with Client(create_app(Settings(index=folder, device="cpu", open_writes=True))) as client:
        yield client


def add(client: Client, picture: bytes, name: str = "new.png", **fields: Any) -> Any:
    return client.post("/images", files={"image": (name, picture)}, data=fields)


def added(response: Any, status: int = 201) -> AddedImage:
    assert response.status_code == status, response.text
    found = AddedImage.model_validate_json(response.content)
    assert response.headers["location"] == f"/images/{found.image_id}"
    assert found.created == (status == 201)
    return found


def with_beach(folder: Path, tmp_path: Path) -> Path:
    """Add a picture of a dataset to the index, and return where it lies."""
    path = tmp_path / "beach.png"
    path.write_bytes(png(50))
    loaded = checkpoint.load(tmp_path / "model")
    with Index.open(folder, loaded.fingerprint) as index:
        beach = Dataset("more", (Described(1, path.name, path),))
        assert indexing.add(index, beach, loaded, ImageSource()).added == 1
    return path


def found(client: Client) -> set[int]:
    query = {"caption": "a dog", "k": 100}
    answer = ImageAnswer.model_validate_json(client.post("/search/images", json=query).content)
    assert answer.certified
    return {hit.image_id for hit in answer.hits}


def test_a_picture_that_was_added_is_found_described_and_shown(
    writable: Client, folder: Path
) -> None:
    before = found(writable)
    data = {"caption": ["a dog  runs", "a red park", "a dog runs"], "split": "new"}
    image = added(add(writable, png(50), "photos/beach.png", **data))
    assert image.image_id == 1012
    assert (image.file_name, image.width, image.height, image.split) == ("beach.png", 64, 48, "new")
    assert [caption.caption for caption in image.captions] == ["a dog runs", "a red park"]
    assert found(writable) == before | {1012}
    assert writable.get("/images/1012").json() == image.model_dump(exclude={"created"})
    assert writable.get("/images/1012/file").content == png(50)
    answer = writable.post("/search/captions", data={"k": "100"}, files={"image": ("a", png(1))})
    captions = CaptionAnswer.model_validate_json(answer.content)
    assert {hit.caption_id for hit in captions.hits if hit.image_id == 1012} == {
        caption.caption_id for caption in image.captions
    }
    assert writable.get("/version").json()["images"] == 13
    (stored,) = folder.glob("pictures/*/*")
    assert stored.read_bytes() == png(50)
    assert verify(folder).ok


def test_what_is_acknowledged_is_there_for_another_process(writable: Client, folder: Path) -> None:
    image = added(add(writable, png(50), caption="a dog"))
    with Index.open(folder, threads=1) as index:
        assert index.image(image.image_id) is not None
        assert index.info().captions == 25
    assert writable.request("DELETE", f"/images/{image.image_id}").status_code == 204
    with Index.open(folder, threads=1) as index:
        assert index.image(image.image_id) is None


def test_an_added_picture_survives_a_restart_and_a_move(folder: Path, tmp_path: Path) -> None:
    settings = Settings(index=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    moved = folder.rename(tmp_path / "moved")
    with Client(create_app(Settings(index=moved, device="cpu"))) as client:
        assert image.image_id in found(client)
        assert client.get(image.image_url).content == png(50)


def test_the_thumbnail_is_made_on_arrival(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = added(add(writable, png(50)))

    def fail(*_: object) -> None:
        raise AssertionError("it was made again")

    monkeypatch.setattr(writable.app.state.engine.pictures, "_thumbnail", fail)
    thumbnail = writable.get(image.thumbnail_url).content
    assert Image.open(BytesIO(thumbnail)).size == (64, 48)


def test_a_picture_that_is_gone_again_when_its_thumbnail_is_kept_was_added(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> str:
        raise picture_missing()

    monkeypatch.setattr("service.core.writing.version_of", gone)
    image = added(add(writable, png(50)))
    monkeypatch.undo()
    assert image.image_id in found(writable)


def test_a_writer_that_has_stopped_is_said(writable: Client) -> None:
    writable.app.state.engine.writing.batcher.close()
    assert "writer" in problem(add(writable, png(50)), 503, "not_ready").detail


def test_the_same_picture_is_the_same_image_and_gains_the_captions_it_lacked(
    writable: Client, folder: Path
) -> None:
    first = added(add(writable, png(50), caption="a dog"))
    generation = writable.get("/version").json()["generation"]
    again = added(add(writable, png(50), "other.png", caption="a dog", split="other"), 200)
    assert again.model_dump(exclude={"created"}) == first.model_dump(exclude={"created"})
    assert writable.get("/version").json()["generation"] == generation
    more = added(add(writable, png(50), caption=["a dog", "a cat"]), 200)
    assert [row.caption for row in more.captions] == ["a dog", "a cat"]
    assert more.image_id == first.image_id
    assert len(found(writable)) == 13
    assert len(list(folder.glob("pictures/*/*"))) == 1


def test_a_picture_that_came_with_a_dataset_is_known_when_it_is_sent(
    folder: Path, tmp_path: Path
) -> None:
    path = with_beach(folder, tmp_path)
    with Client(create_app(Settings(index=folder, device="cpu", open_writes=True))) as client:
        image = added(add(client, png(50), caption="a dog"), 200)
        assert (image.image_id, image.file_name) == (1012, "beach.png")
        assert [row.caption for row in image.captions] == ["a dog"]
        assert client.request("DELETE", "/images/1012").status_code == 204
    assert path.read_bytes() == png(50)
    assert not list(folder.glob("pictures/*/*"))


def test_a_kept_picture_goes_with_its_image_though_another_shows_the_same(
    folder: Path, tmp_path: Path
) -> None:
    settings = Settings(index=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    with_beach(folder, tmp_path)
    with Client(create_app(settings)) as client:
        assert client.request("DELETE", f"/images/{image.image_id}").status_code == 204
        assert not list(folder.glob("pictures/*/*"))
        assert client.get("/images/1013/file").content == png(50)


def test_an_id_may_be_chosen_and_means_one_picture_only(writable: Client) -> None:
    assert added(add(writable, png(50), image_id="5000000")).image_id == 5_000_000
    assert added(add(writable, png(50), image_id="5000000"), 200).image_id == 5_000_000
    problem(add(writable, png(51), image_id="5000000"), 409, "conflict")
    problem(add(writable, png(51), image_id="1000"), 409, "conflict")
    problem(add(writable, png(50), image_id="6"), 409, "conflict")
    assert added(add(writable, png(51), image_id=str(2**53 - 1))).image_id == 2**53 - 1
    assert added(add(writable, png(52))).image_id == 2**53
    assert added(add(writable, png(53), image_id="0")).image_id == 0


def test_where_no_larger_id_is_left_for_a_caption_it_is_refused_with_its_picture(
    writable: Client, folder: Path
) -> None:
    with Index.open(folder, threads=1) as index:
        image = ImageRow(1, "one.png", "one.png", 1, 1, "")
        points = np.ones((1, index.model.dimension), np.float32)
        index.add([image], points, [CaptionRow(ID_MAXIMUM - 1, 1, "a dog")], points)
    refused = add(writable, png(50), caption=["a dog", "a cat"])
    assert "no larger id left for a caption" in problem(refused, 409, "conflict").detail
    assert added(add(writable, png(50))).captions == []
    (caption,) = added(add(writable, png(50), caption="a dog"), 200).captions
    assert caption.caption_id == ID_MAXIMUM
    problem(add(writable, png(50), caption="a child"), 409, "conflict")
    assert added(add(writable, png(50), caption="a dog"), 200).captions == [caption]
    assert verify(folder).ok


def test_a_removed_image_is_gone_with_captions_and_picture_and_its_id(
    writable: Client, folder: Path
) -> None:
    image = added(add(writable, png(50), caption="a dog"))
    assert writable.request("DELETE", f"/images/{image.image_id}").status_code == 204
    assert image.image_id not in found(writable)
    problem(writable.get(f"/images/{image.image_id}"), 404, "not_found")
    problem(writable.get(image.image_url), 404, "not_found")
    problem(writable.get(f"/captions/{image.captions[0].caption_id}"), 404, "not_found")
    problem(writable.request("DELETE", f"/images/{image.image_id}"), 404, "not_found")
    assert not list(folder.glob("pictures/*/*"))
    again = added(add(writable, png(50)))
    assert again.image_id > image.image_id
    assert again.captions == []


def test_an_image_is_gone_also_where_its_picture_cannot_be_removed(
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


def test_a_picture_that_lies_elsewhere_is_left_alone(writable: Client, folder: Path) -> None:
    assert writable.request("DELETE", "/images/1000").status_code == 204
    assert (folder.parent / "pictures" / "picture-0.png").exists()
    assert found(writable) == set(range(1001, 1012))


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"caption": ""}, "caption.0"),
        ({"caption": ["a dog", "  "]}, "caption.1"),
        ({"caption": "a\0dog"}, "caption.0"),
        ({"caption": ["a dog", "a dog", "a " * 101]}, "caption.2"),
        ({"caption": "é" * 2001}, "caption.0"),
        ({"caption": [f"a dog {at}" for at in range(33)]}, "caption"),
        ({"image_id": "seven"}, "image_id"),
        ({"image_id": "-1"}, "image_id"),
        ({"image_id": str(2**53)}, "image_id"),
        ({"image_id": ["1", "2"]}, "image_id"),
        ({"split": "x" * 65}, "split"),
        ({"split": "a\nb"}, "split"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_fields_out_of_bounds_are_named_and_nothing_is_stored(
    writable: Client, folder: Path, fields: dict[str, Any], at_fault: str
) -> None:
    response = add(writable, png(50), **fields)
    assert problem(response, 422, "invalid").errors[0].field == at_fault
    assert not (folder / "pictures").exists()
    assert len(found(writable)) == 12


def test_what_is_no_picture_is_refused_as_in_a_search(writable: Client) -> None:
    problem(add(writable, b"no picture"), 415, "not_a_picture")
    problem(add(writable, png(1)[:200]), 422, "damaged_picture")
    problem(add(writable, b""), 415, "not_a_picture")
    response = writable.post("/images", json={"image": "x"})
    problem(response, 415, "wrong_media_type")
    problem(
        writable.post("/images", data={"caption": "x"}, files={"x": ("x", b"")}), 422, "invalid"
    )


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF"])
def test_each_format_is_kept_as_it_came(writable: Client, form: str) -> None:
    data = encoded(Image.new("RGB", (30, 20), "red"), form)
    image = added(add(writable, data, "\\evil\\..\\a\u202eb.x"))
    assert image.file_name == "ab.x"
    response = writable.get(image.image_url)
    assert (response.content, response.headers["content-type"]) == (data, f"image/{form.lower()}")


def test_changes_that_come_together_are_one_generation(writable: Client) -> None:
    async def together() -> list[Any]:
        pictures = [png(50 + at // 2) for at in range(20)]
        return await asyncio.gather(
            *(
                writable.http.post(
                    "/images", files={"image": ("a.png", data)}, data={"caption": f"a dog {at}"}
                )
                for at, data in enumerate(pictures)
            )
        )

    before = writable.get("/version").json()["generation"]
    answers = [AddedImage.model_validate_json(one.content) for one in writable.run(together())]
    assert sum(one.created for one in answers) == 10
    assert len({one.image_id for one in answers}) == 10
    version = writable.get("/version").json()
    assert (version["images"], version["captions"]) == (22, 44)
    assert version["generation"] - before < 20


def test_a_removal_that_comes_twice_happens_once(writable: Client) -> None:
    async def together() -> list[Any]:
        return await asyncio.gather(
            *(writable.http.delete(f"/images/{at}") for at in (1000, 1000, 1001, 77))
        )

    statuses = sorted(one.status_code for one in writable.run(together()))
    assert statuses == [204, 204, 404, 404]
    assert len(found(writable)) == 10


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


def test_a_full_disk_at_any_write_is_said_and_changes_nothing(
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
        assert "still served" in said.detail
        assert len(found(writable)) == 12
        assert not [path for path in folder.glob("pictures/*/*") if path.is_file()]
    assert room > 5
    added(response)
    assert len(found(writable)) == 13
    assert verify(folder).ok


def test_a_write_that_fails_is_said_and_changes_nothing(
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


def test_a_change_that_is_made_and_cannot_be_loaded_is_acknowledged_and_seen_once_it_can_be(
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
    writable.app.state.engine.index.refresh()
    assert image.image_id in found(writable)
    assert 1001 not in found(writable)
    assert verify(folder).ok


def test_another_process_that_writes_too_long_is_said_with_a_time_to_come_back(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **_named: object) -> None:
        raise IndexLockedError("another process is writing to the index /secret")

    monkeypatch.setattr(writable.app.state.engine.index, "add", locked)
    response = add(writable, png(50))
    said = problem(response, 503, "write_failed")
    assert "secret" not in said.detail
    assert response.headers["retry-after"] == "5"


def test_a_change_is_not_acknowledged_once_the_file_of_the_catalog_is_gone(
    writable: Client, folder: Path
) -> None:
    before = found(writable)
    (folder / "catalog.db").unlink()
    problem(add(writable, png(50)), 503, "catalog_unreachable")
    problem(writable.request("DELETE", "/images/1001"), 503, "catalog_unreachable")
    assert found(writable) == before


@contextmanager
def two_services(folder: Path) -> Iterator[tuple[Client, Client]]:
    """Serve one index twice, to whoever writes."""
    settings = Settings(index=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as one, Client(create_app(settings)) as other:
        yield one, other


def test_a_picture_that_two_services_are_sent_at_once_is_one_image_and_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Future[Any]] = []
    with two_services(folder) as (one, other), ThreadPoolExecutor(1) as pool:
        write = stored_pictures.keep

        def keep(*picture: Any) -> str:
            monkeypatch.setattr(stored_pictures, "keep", write)
            theirs.append(pool.submit(add, other, png(50)))
            while not (theirs[0].done() or other.app.state.engine.writing.batcher.busy_seconds()):
                time.sleep(0.01)
            return write(*picture)

        monkeypatch.setattr(stored_pictures, "keep", keep)
        mine = added(add(one, png(50)))
        assert added(theirs[0].result(), 200).image_id == mine.image_id
        assert one.get(f"/images/{mine.image_id}/file").content == png(50)
    assert verify(folder).ok


def test_a_picture_that_one_service_removes_and_another_is_sent_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs: list[Future[Any]] = []
    with two_services(folder) as (one, other), ThreadPoolExecutor(1) as pool:
        gone = added(add(one, png(50)))
        remove = durable.remove

        def removed(path: Path) -> None:
            if stored_pictures.PICTURES in path.parts and not theirs:
                theirs.append(pool.submit(add, other, png(50)))
                wait(theirs, timeout=2)  # which is for the picture to be gone
            remove(path)

        monkeypatch.setattr(durable, "remove", removed)
        assert one.request("DELETE", f"/images/{gone.image_id}").status_code == 204
        image = added(theirs[0].result())
        assert other.get(f"/images/{image.image_id}/file").content == png(50)
    assert verify(folder).ok


def test_writes_that_wait_together_for_another_process_are_told_together(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = writable.app.state.engine
    free, waits = threading.Event(), []

    def locked(*_: object, **_named: object) -> None:
        waits.append(free.wait(30))
        raise IndexLockedError("another process is writing to the index /secret")

    monkeypatch.setattr(engine.index, "add", locked)
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


def test_a_picture_that_a_killed_writer_left_is_swept_at_the_start_when_it_is_old(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(index=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    left = folder / stored_pictures.keep(folder, png(51), "ab" * 32, ".png")
    with Client(create_app(settings)):
        assert left.exists()  # another process may be about to name it
    monkeypatch.setattr(stored_pictures, "_FORGOTTEN_SECONDS", -1.0)
    with Client(create_app(settings)) as client:
        assert not left.exists()
        assert client.get(image.image_url).status_code == 200


def test_verify_names_a_kept_picture_that_was_changed_or_lost(
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


def test_a_write_that_takes_too_long_is_given_up_and_has_its_place_until_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, Any] = {"writes_in_flight": 1, "write_seconds": 4, "deadline_seconds": 60}
    settings = Settings(index=folder, device="cpu", open_writes=True, **limits)
    free = threading.Event()
    with Client(create_app(settings)) as client, ThreadPoolExecutor(1) as pool:
        engine = client.app.state.engine
        put = engine.index.add

        def slowly(*rows: Any, **more: Any) -> None:
            free.wait(30)
            put(*rows, **more)

        monkeypatch.setattr(engine.index, "add", slowly)
        try:
            first = pool.submit(add, client, png(50))
            while not engine.writing.batcher.busy_seconds():
                assert not first.done()
                time.sleep(0.01)
            problem(client.request("DELETE", "/images/1000"), 429, "busy")
            said = problem(first.result(), 503, "late")
            assert said.detail == "the answer did not come within 4 seconds"
        finally:
            free.set()


def test_a_picture_brings_no_more_captions_than_the_service_takes(folder: Path) -> None:
    settings = Settings(index=folder, device="cpu", open_writes=True, image_captions=2)
    with Client(create_app(settings)) as client:
        refused = add(client, png(50), caption=["a dog", "a cat", "a child"])
        assert problem(refused, 422, "invalid").detail == "caption: more than 2 captions"
        assert len(added(add(client, png(50), caption=["a dog", "a dog", "a cat"])).captions) == 2


def test_more_writes_than_may_be_in_flight_are_told_to_come_back(folder: Path) -> None:
    settings = Settings(index=folder, device="cpu", open_writes=True, writes_in_flight=1)
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


def test_how_likely_a_stored_caption_is_of_which_the_model_knows_no_word_is_not_said(
    writable: Client,
) -> None:
    zorp, dog = added(add(writable, png(70), caption=["zorp glim", "a dog"])).captions
    asked = {"files": {"image": png(70)}, "data": {"k": "100"}}
    common = {"common": [1001, "a dog"], "k": 100}
    for response in (
        writable.post("/search/captions", **asked),
        writable.post("/search/common", json=common),
    ):
        said = {hit["caption_id"]: hit["probability"] for hit in response.json()["hits"]}
        assert said.pop(zorp.caption_id) is None
        assert None not in said.values()
        assert dog.caption_id in said
    drawn = writable.get("/images/1001/diagram").json()["nodes"]
    assert "zorp glim" not in {text for node in drawn for text in node["captions"]}
    page = writable.get("/?image=1001&k=100").text
    assert page.count("unknown words") == 1
