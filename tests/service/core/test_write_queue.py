"""Adding and removing images: durable before the answer, seen by the next search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.index.verify import verify
from hasse.models.checkpoints import checkpoint
from hasse.service.app import create_app
from hasse.service.core.pictures import picture_missing
from hasse.service.questions.answers import CaptionAnswer
from hasse.service.schemas import ID_MAXIMUM, AddedImage
from hasse.service.settings import Settings
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from hasse.service.writing.indexing import identity_of
from tests.service.client import Client
from tests.service.collection import make_collection, png
from tests.service.hostile_pictures import encoded
from tests.service.problems import problem
from tests.service.uploads import add, added, found
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """An application that takes writes, for requests that it refuses, and its index."""
    index = make_collection(tmp_path_factory.mktemp("shared"))
    with Client(create_app(Settings(library=index, device="cpu", open_writes=True))) as client:
        yield client, index


def with_beach(folder: Path, tmp_path: Path) -> Path:
    """Add a picture of a dataset to the index, and return where it lies."""
    path = tmp_path / "beach.png"
    path.write_bytes(png(50))
    loaded = checkpoint.load(tmp_path / "model")
    with Index.open(folder, loaded.fingerprint) as index:
        sync = FolderSync(index, scan([path]), remove=False)
        assert sync.apply(Encoders(lambda: loaded, ImageSource)).added == 1
    return path


def test_add_new_picture_is_found_described_and_shown(writable: Client, folder: Path) -> None:
    before = found(writable)
    data = {"caption": ["a dog  runs", "a red park", "a dog runs"], "split": "new"}
    image = added(add(writable, png(50), "photos/beach.png", **data))
    assert image.image_id == 1012
    assert (image.file_name, image.width, image.height, image.split) == ("beach.png", 64, 48, "new")
    assert [caption.caption for caption in image.captions] == ["a dog runs", "a red park"]
    assert found(writable) == before | {1012}
    assert writable.get("/images/1012").json() == image.model_dump(exclude={"created"})
    assert writable.get("/images/1012/file").content == png(50)
    form = {"k": "100", "distinct": "false"}
    answer = writable.post("/search/captions", data=form, files={"image": ("a", png(1))})
    captions = CaptionAnswer.model_validate_json(answer.content)
    assert {hit.caption_id for hit in captions.hits if hit.image_id == 1012} == {
        caption.caption_id for caption in image.captions
    }
    assert writable.get("/version").json()["images"] == 13
    (stored,) = folder.glob("pictures/*/*")
    assert stored.read_bytes() == png(50)
    assert verify(folder).ok


def test_add_caption_of_more_words_than_models_read_is_stored_and_shown_whole(
    writable: Client,
) -> None:
    long = f"a dog {'and then a man ' * 40}and a train"
    image = added(add(writable, png(50), caption=long))
    (caption,) = writable.get(f"/images/{image.image_id}").json()["captions"]
    assert caption["caption"] == long
    answer = writable.post("/search/images", json={"caption": long})
    assert answer.json()["detail"] == "caption: more than 100 words"


def test_add_picture_with_a_date_is_found_by_it(writable: Client) -> None:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "1961:04:12 09:07:00"
    dated = BytesIO()
    Image.new("RGB", (64, 48), "red").save(dated, "JPEG", exif=exif)
    image = added(add(writable, dated.getvalue(), "dated.jpg"))
    days = {"taken_from": "1961-04-12T00:00:00Z", "taken_before": "1961-04-13T00:00:00Z"}
    answer = writable.post("/search/images", json={"caption": "a dog", **days})
    assert [hit["image_id"] for hit in answer.json()["hits"]] == [image.image_id]


def test_write_after_the_answer_is_seen_by_another_process(writable: Client, folder: Path) -> None:
    image = added(add(writable, png(50), caption="a dog"))
    with Index.open(folder, threads=1) as index:
        assert index.catalog.images([image.image_id])
        assert index.info().captions == 25
    assert writable.request("DELETE", f"/images/{image.image_id}").status_code == 204
    with Index.open(folder, threads=1) as index:
        assert not index.catalog.images([image.image_id])


def test_add_picture_survives_restart_and_moved_index(folder: Path, tmp_path: Path) -> None:
    settings = Settings(library=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    moved = folder.rename(tmp_path / "moved")
    with Client(create_app(Settings(library=moved, device="cpu"))) as client:
        assert image.image_id in found(client)
        assert client.get(image.image_url).content == png(50)


def test_add_picture_caches_its_thumbnail(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = added(add(writable, png(50)))

    def fail(*_: object) -> None:
        raise AssertionError("it was made again")

    monkeypatch.setattr(writable.engine.pictures, "_reduced", fail)
    thumbnail = writable.get(image.thumbnail_url).content
    assert Image.open(BytesIO(thumbnail)).size == (64, 48)


def test_add_picture_removed_before_thumbnail_is_cached_succeeds(
    writable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise picture_missing()

    monkeypatch.setattr(writable.engine.pictures, "remember", gone)
    image = added(add(writable, png(50)))
    assert image.image_id in found(writable)


def test_add_same_picture_again_only_adds_missing_captions(writable: Client, folder: Path) -> None:
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


def test_add_picture_of_a_dataset_returns_its_image(folder: Path, tmp_path: Path) -> None:
    path = with_beach(folder, tmp_path)
    with Client(create_app(Settings(library=folder, device="cpu", open_writes=True))) as client:
        image = added(add(client, png(50), caption="a dog"), 200)
        assert (image.image_id, image.file_name) == (1012, "beach.png")
        assert [row.caption for row in image.captions] == ["a dog"]
        assert client.request("DELETE", "/images/1012").status_code == 204
    assert path.read_bytes() == png(50)
    assert not list(folder.glob("pictures/*/*"))


def test_remove_image_deletes_its_stored_picture_though_another_has_the_same_bytes(
    folder: Path, tmp_path: Path
) -> None:
    settings = Settings(library=folder, device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        image = added(add(client, png(50)))
    path = tmp_path / "beach.png"
    path.write_bytes(png(50))
    with Index.open(folder) as index:  # as a dataset with its own ids may have it twice
        row = ImageRow(1013, path.name, str(path), sha256=sha256(png(50)).hexdigest())
        index.add([row], np.ones((1, index.model.dimension), np.float32))
    with Client(create_app(settings)) as client:
        assert client.request("DELETE", f"/images/{image.image_id}").status_code == 204
        assert not list(folder.glob("pictures/*/*"))
        assert client.get("/images/1013/file").content == png(50)


def test_empty_index_is_served_filled_emptied_and_started_again(tmp_path: Path) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    with Index.create(tmp_path / "index", identity_of(loaded)):
        pass
    settings = Settings(library=tmp_path / "index", device="cpu", open_writes=True)
    with Client(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 200
        assert found(client) == set()
        assert client.get("/").status_code == 200
        captions = client.post("/search/captions", files={"image": ("a.png", png(50))})
        assert captions.json()["hits"] == []
        image = added(add(client, png(50), caption="a dog"))
        assert found(client) == {image.image_id}
        assert client.request("DELETE", f"/images/{image.image_id}").status_code == 204
        assert found(client) == set()
    with Client(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 200
        assert found(client) == set()
    assert verify(tmp_path / "index").ok


def test_add_with_chosen_id_conflicts_with_another_picture(writable: Client) -> None:
    assert added(add(writable, png(50), image_id="5000000")).image_id == 5_000_000
    assert added(add(writable, png(50), image_id="5000000"), 200).image_id == 5_000_000
    problem(add(writable, png(51), image_id="5000000"), 409, "conflict")
    problem(add(writable, png(51), image_id="1000"), 409, "conflict")
    problem(add(writable, png(50), image_id="6"), 409, "conflict")
    assert added(add(writable, png(51), image_id=str(2**53 - 1))).image_id == 2**53 - 1
    assert added(add(writable, png(52))).image_id == 5_000_001
    assert added(add(writable, png(53), image_id="0")).image_id == 0


def test_add_beside_a_caption_id_far_away_goes_on_after_the_others(
    writable: Client, folder: Path
) -> None:
    with Index.open(folder, threads=1) as index:
        largest = index.catalog.largest_ids()["caption"]
        image = ImageRow(1, "one.png", "one.png", 1, 1, "")
        points = np.ones((1, index.model.dimension), np.float32)
        index.add([image], points, [CaptionRow(ID_MAXIMUM - 1, 1, "a dog")], points)
    captions = added(add(writable, png(50), caption=["a dog", "a cat"])).captions
    assert [(row.caption_id, row.caption) for row in captions] == [
        (largest + 1, "a dog"),
        (largest + 2, "a cat"),
    ]
    assert verify(folder).ok


def test_id_of_a_removed_picture_is_not_given_again_after_merges(
    writable: Client, folder: Path
) -> None:
    image = added(add(writable, png(50), caption="a dog"))
    assert writable.request("DELETE", f"/images/{image.image_id}").status_code == 204
    with Index.open(folder, threads=1) as index:
        index.compact(everything)
    again = added(add(writable, png(51)))
    assert again.image_id == image.image_id + 1
    problem(writable.request("DELETE", f"/images/{image.image_id}"), 404, "not_found")


def test_add_picture_whose_original_was_deleted_keeps_what_was_sent(
    folder: Path, tmp_path: Path
) -> None:
    path = with_beach(folder, tmp_path)
    path.unlink()
    with Client(create_app(Settings(library=folder, device="cpu", open_writes=True))) as client:
        assert client.get("/images/1012/file").status_code != 200
        assert added(add(client, png(50)), 200).image_id == 1012
        assert client.get("/images/1012/file").content == png(50)
    assert verify(folder).ok


def test_remove_image_deletes_captions_and_picture_and_never_reuses_the_id(
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


def test_remove_image_leaves_files_outside_the_index(writable: Client, folder: Path) -> None:
    assert writable.request("DELETE", "/images/1000").status_code == 204
    assert (folder.parent / "pictures" / "picture-0.png").exists()
    assert found(writable) == set(range(1001, 1012))


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"caption": ""}, "caption.0"),
        ({"caption": ["a dog", "  "]}, "caption.1"),
        ({"caption": "a\0dog"}, "caption.0"),
        ({"caption": ["a dog", "a dog", "a" * 2001]}, "caption.2"),
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
def test_add_field_out_of_bounds_is_named_and_stores_nothing(
    shared: tuple[Client, Path], fields: dict[str, Any], at_fault: str
) -> None:
    client, folder = shared
    response = add(client, png(50), **fields)
    assert problem(response, 422, "invalid").errors[0].field == at_fault
    assert not (folder / "pictures").exists()
    assert len(found(client)) == 12


def test_add_file_that_is_no_picture_is_refused(shared: tuple[Client, Path]) -> None:
    client, _ = shared
    problem(add(client, b"no picture"), 415, "not_a_picture")
    problem(add(client, png(1)[:200]), 422, "damaged_picture")
    problem(add(client, b""), 415, "not_a_picture")
    response = client.post("/images", json={"image": "x"})
    problem(response, 415, "wrong_media_type")
    problem(client.post("/images", data={"caption": "x"}, files={"x": ("x", b"")}), 422, "invalid")


def test_add_each_format_stores_the_bytes_unchanged(writable: Client) -> None:
    for form in ("JPEG", "PNG", "WEBP", "GIF"):
        data = encoded(Image.new("RGB", (30, 20), "red"), form)
        image = added(add(writable, data, "\\evil\\..\\a\u202eb.x"))
        assert image.file_name == "ab.x"
        answer = writable.get(image.image_url)
        assert (answer.content, answer.headers["content-type"]) == (data, f"image/{form.lower()}")


def test_add_concurrently_shares_generations(writable: Client) -> None:
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
    answers = [
        AddedImage.model_validate_json(answer.content) for answer in writable.run(together())
    ]
    assert sum(answer.created for answer in answers) == 10
    assert len({answer.image_id for answer in answers}) == 10
    version = writable.get("/version").json()
    assert (version["images"], version["captions"]) == (22, 44)
    assert version["generation"] - before < 20


def test_remove_twice_concurrently_succeeds_once(writable: Client) -> None:
    async def together() -> list[Any]:
        return await asyncio.gather(
            *(writable.http.delete(f"/images/{at}") for at in (1000, 1000, 1001, 77))
        )

    statuses = sorted(answer.status_code for answer in writable.run(together()))
    assert statuses == [204, 204, 404, 404]
    assert len(found(writable)) == 10


def test_add_more_captions_than_the_setting_is_refused(folder: Path) -> None:
    settings = Settings(library=folder, device="cpu", open_writes=True, image_captions=2)
    with Client(create_app(settings)) as client:
        refused = add(client, png(50), caption=["a dog", "a cat", "a child"])
        assert problem(refused, 422, "invalid").detail == "caption: more than 2 captions"
        assert len(added(add(client, png(50), caption=["a dog", "a dog", "a cat"])).captions) == 2


def test_search_stored_caption_without_a_known_word_has_no_probability(
    writable: Client,
) -> None:
    zorp, dog = added(add(writable, png(70), caption=["zorp glim", "a dog"])).captions
    asked = {"files": {"image": png(70)}, "data": {"k": "100"}}
    common = {"common": [1001, "a dog"], "k": 100}
    for response in (
        writable.post("/search/captions", **asked),
        writable.post("/search/common", json=common),
    ):
        probabilities = {hit["caption_id"]: hit["probability"] for hit in response.json()["hits"]}
        assert probabilities.pop(zorp.caption_id) is None
        assert None not in probabilities.values()
        assert dog.caption_id in probabilities
    drawn = writable.get("/images/1001/diagram").json()["nodes"]
    assert "zorp glim" not in {text for node in drawn for text in node["captions"]}
    page = writable.get("/?image=1001&k=100").text
    _, behind, nearest = page.partition('<details class="nearest">')
    assert behind
    assert "zorp glim" in nearest
    assert 'class="word"' not in nearest
