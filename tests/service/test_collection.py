"""Images and captions by id, with their files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from hasse.service.app import create_app
from hasse.service.schemas import CaptionRecord, ImageRecord
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection, picture
from tests.service.problems import problem


def test_image_is_described_with_its_captions(client: Client) -> None:
    record = ImageRecord.model_validate_json(client.get("/images/1003").content)
    assert (record.image_id, record.file_name, record.split) == (1003, "picture-3.png", "test")
    assert (record.width, record.height) == (64, 48)
    assert [caption.caption_id for caption in record.captions] == [10030, 10031]
    problem(client.get("/images/77"), 404, "not_found")


def test_caption_is_described_with_its_image(client: Client) -> None:
    record = CaptionRecord.model_validate_json(client.get("/captions/10031").content)
    assert (record.caption_id, record.image_id) == (10031, 1003)
    assert record.caption == "a red animal runs"
    problem(client.get("/captions/77"), 404, "not_found")


def test_image_file_is_the_stored_file(client: Client, collection: Path) -> None:
    response = client.get("/images/1003/file")
    stored = collection.parent / "pictures" / "picture-3.png"
    assert response.content == stored.read_bytes()
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_image_file_that_browsers_show_runs_nothing(client: Client) -> None:
    headers = client.get("/images/1003/file").headers
    assert headers["content-disposition"] == 'inline; filename="picture-3.png"'
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_image_file_of_another_type_is_saved_under_its_own_name(tmp_path: Path) -> None:
    settings = Settings(library=make_collection(tmp_path), device="cpu", open_writes=True)
    stored = io.BytesIO()
    picture(99).save(stored, "TIFF")
    name = 'the "größte" dog, 100%.tif'
    with Client(create_app(settings)) as client:
        added = client.post("/images", files={"image": (name, stored.getvalue())})
        image_id = added.json()["image_id"]
        response = client.get(f"/images/{image_id}/file")
    assert response.content == stored.getvalue()
    assert response.headers["content-type"] == "image/tiff"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-disposition"] == (
        'attachment; filename="the _gr__te_ dog, 100_.tif"; '
        "filename*=UTF-8''the%20%22gr%C3%B6%C3%9Fte%22%20dog%2C%20100%25.tif"
    )


def test_image_file_larger_than_memory_for_answers_is_sent_in_pieces(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    path = tmp_path / "pictures" / "picture-0.png"
    content = path.read_bytes() + bytes(2_000_000)
    path.write_bytes(content)
    settings = Settings(library=index, device="cpu", buffered_bytes=1_000_000)
    with Client(create_app(settings)) as client:
        response = client.get("/images/1000/file")
        assert response.headers["content-length"] == str(len(content))
        assert response.content == content


def test_image_file_that_became_no_regular_file_is_missing(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    pictures = tmp_path / "pictures"
    for at in range(2):
        (pictures / f"picture-{at}.png").unlink()
    os.mkfifo(pictures / "picture-0.png")
    (pictures / "picture-1.png").symlink_to("/dev/zero")
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        for url in ("1000/file", "1000/thumbnail", "1001/file", "1001/thumbnail"):
            problem(client.get(f"/images/{url}"), 404, "picture_missing")


def test_thumbnail_is_a_jpeg_of_the_picture(client: Client) -> None:
    response = client.get("/images/1003/thumbnail")
    assert response.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(response.content)).size == (64, 48)
    assert client.get("/images/1003/thumbnail").content == response.content


@pytest.mark.parametrize("what", ["file", "thumbnail", "preview/medium"])
def test_picture_with_known_etag_is_not_modified(client: Client, what: str) -> None:
    url = f"/images/1003/{what}"
    first = client.get(url)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, no-cache"
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get(url, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert client.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
    assert client.get(f"/images/1004/{what}").headers["etag"] != tag


def test_picture_that_is_gone_or_broken_is_a_problem(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    pictures = tmp_path / "pictures"
    (pictures / "picture-0.png").unlink()
    (pictures / "picture-1.png").write_text("no picture")
    (pictures / "picture-2.png").unlink()
    (pictures / "picture-2.png").mkdir()
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        for image_id in (1000, 1001, 1002):
            for what in ("file", "thumbnail", "preview/large"):
                response = client.get(f"/images/{image_id}/{what}")
                found = problem(response, 404, "picture_missing")
                assert str(tmp_path) not in response.text
                assert "no longer where it was" in found.detail
            assert client.get(f"/images/{image_id}").status_code == 200


def test_changed_picture_has_another_etag(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        before = client.get("/images/1000/thumbnail")
        Image.new("RGB", (64, 48), "red").save(tmp_path / "pictures" / "picture-0.png")
        after = client.get("/images/1000/thumbnail")
        assert after.headers["etag"] != before.headers["etag"]
        assert after.content != before.content


def test_picture_changed_to_one_of_equal_size_has_another_etag(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    path = tmp_path / "pictures" / "picture-0.png"
    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        before = client.get("/images/1000/file")
        path.write_bytes(before.content[:-1] + b"?")
        os.utime(path, ns=(0, 1))
        after = client.get("/images/1000/file", headers={"If-None-Match": before.headers["etag"]})
        assert after.content[-1:] == b"?"


def test_files_are_served_by_id_only(client: Client) -> None:
    for path in (
        "/images/..%2f..%2fetc%2fpasswd/file",
        "/static/../app.py",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/%2e%2e/settings.py",
    ):
        assert client.get(path).status_code in (404, 422)
