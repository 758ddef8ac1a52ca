"""Pictures are decoded or refused with a clear error, within bounded memory."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import resource
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO

import pytest
from PIL import Image

from hasse.models.images import codecs
from hasse.models.images.codecs import DecodedPicture
from hasse.models.images.decoder import Cancellation
from hasse.models.images.formats import FORMATS, PNG
from hasse.models.images.limits import PictureLimits
from hasse.models.images.preprocessing import Preprocessing
from hasse.service.app import create_app
from hasse.service.core.pictures import PictureReader, open_original
from hasse.service.core.previews import PreviewCache, ThumbnailCache
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import picture, png
from tests.service.hostile_pictures import BAD, GOOD, encoded, png_header
from tests.service.problems import problem


def no_previews() -> PreviewCache:
    return PreviewCache(Path("nowhere"), capacity=0)


def decoded(seed: int) -> DecodedPicture:
    image = picture(seed)
    return DecodedPicture(image, image.size, PNG)


@pytest.mark.parametrize("name", GOOD)
def test_search_by_odd_picture_succeeds(client: Client, name: str) -> None:
    response = client.post(
        "/search/captions", data={"k": "5"}, files={"image": ("a", GOOD[name]())}
    )
    assert response.status_code == 200, response.text
    assert len(response.json()["hits"]) == 5


@pytest.mark.parametrize("name", BAD)
def test_search_by_bad_picture_is_refused_with_a_reason(client: Client, name: str) -> None:
    make, (status, reason) = BAD[name]
    response = client.post("/search/captions", files={"image": ("a.jpg", make(), "image/jpeg")})
    error = problem(response, status, reason)
    assert error.errors[0].field == "image"
    assert "Error" not in response.text
    assert "/" not in error.detail
    assert "(" not in error.detail, "what the decoder said stays inside"


@pytest.mark.parametrize(
    ("package", "name", "extra"), [("pillow_heif", "HEIC", "heic"), ("rawpy", "RAW", "raw")]
)
def test_search_by_picture_whose_package_is_missing_names_it(
    client: Client, package: str, name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(_: object, file: IO[bytes], limits: PictureLimits, *__: object) -> object:
        return codecs.decode(file, limits)

    body = GOOD[name]()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("hasse.models.images.decoding.DECODERS.ask", here)
    response = client.post("/search/captions", files={"image": ("a", body)})
    error = problem(response, 415, "not_a_picture")
    assert error.detail == f'image: a {name} picture: pip install -e ".[{extra}]" reads these'


@pytest.mark.parametrize("name", ["TIFF", "AVIF", "HEIC", "RAW", "JPEG 2000", "BMP", "JPEG"])
def test_stored_picture_has_the_media_type_of_its_first_bytes(name: str, tmp_path: Path) -> None:
    media_types = {each.name: each.media_type for each in FORMATS}
    path = tmp_path / "a.jpg"
    path.write_bytes(GOOD[name]())
    original = open_original(path)
    assert original.format.media_type == media_types[name]
    assert b"".join(original.pieces()) == GOOD[name]()


def test_search_by_picture_with_too_many_pixels_takes_no_memory(client: Client) -> None:
    make, _ = BAD["a bomb"]
    bomb = make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        client.post("/search/captions", files={"image": ("a.png", bomb)})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kilobytes: decoded it is 432,000, and usually none are seen


def test_preview_cancelled_while_waiting_frees_the_picture() -> None:
    begun, gate, gone = threading.Event(), threading.Event(), threading.Event()

    class Sent(bytes):
        def __del__(self) -> None:
            gone.set()

    def slowly(*args: object) -> DecodedPicture:
        begun.set()
        gate.wait(60)
        return decoded(1)

    async def main() -> None:
        pictures = PictureReader(Settings(decode_workers=1), Preprocessing(), no_previews(), slowly)
        first = asyncio.create_task(pictures.thumbnail_of_upload(b"first"))
        await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(pictures.thumbnail_of_upload(Sent(b"second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        del second
        assert await asyncio.to_thread(gone.wait, 60)
        gate.set()
        assert await first
        pictures.close()

    asyncio.run(main())


def test_preview_beyond_the_queue_is_busy() -> None:
    gate = threading.Event()

    def slowly(*args: object) -> DecodedPicture:
        gate.wait(60)
        return decoded(1)

    async def main() -> None:
        pictures = PictureReader(
            Settings(in_flight=1, queued=1), Preprocessing(), no_previews(), slowly
        )
        waiting = [asyncio.create_task(pictures.thumbnail_of_upload(png(at))) for at in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as refused:
            await pictures.thumbnail_of_upload(png(2))
        assert (refused.value.reason, refused.value.retry_after) == ("busy", 1)
        gate.set()
        await asyncio.gather(*waiting)
        assert await pictures.thumbnail_of_upload(png(2))  # a finished one makes room
        pictures.close()

    asyncio.run(main())


def test_slow_pictures_leave_their_places_to_others(tmp_path: Path) -> None:
    gate, begun = threading.Event(), Counter[object]()

    def decode(source: bytes | Path, _: object, __: object, stop: Cancellation) -> DecodedPicture:
        begun[source] += 1
        if isinstance(source, bytes) and source.startswith(b"slow"):
            gate.wait(60)
        return decoded(1)

    async def main() -> None:
        pictures = PictureReader(Settings(decode_workers=1), Preprocessing(), no_previews(), decode)
        slow = [
            asyncio.create_task(pictures.thumbnail_of_upload(b"slow %d" % at)) for at in range(2)
        ]
        await asyncio.sleep(0)
        assert await pictures.reduced(tmp_path / "stored.png", "thumbnail", "1"), (
            "stored ones do not wait"
        )
        assert await pictures.thumbnail_of_upload(b"quick"), "each slow one leaves its place"
        assert not any(task.done() for task in slow)
        gate.set()
        assert all(await asyncio.gather(*slow))
        pictures.close()

    asyncio.run(main())
    assert (begun[b"slow 0"], begun[b"slow 1"]) == (1, 2), "the second starts again"


def test_preview_that_is_cancelled_ends_its_decoder() -> None:
    begun, ended = threading.Event(), threading.Event()

    class Stop(Cancellation):
        def cancel(self) -> None:
            super().cancel()
            ended.set()

    def decode(_: object, __: object, ___: object, stop: Cancellation) -> DecodedPicture:
        begun.set()
        assert ended.wait(60)
        return decoded(1)

    async def main() -> None:
        pictures = PictureReader(Settings(), Preprocessing(), no_previews(), decode)
        waiting = asyncio.create_task(pictures.thumbnail_of_upload(b"slow"))
        await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await asyncio.to_thread(ended.wait, 60)
        pictures.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hasse.service.core.pictures.Cancellation", Stop)
        asyncio.run(main())


def test_picture_pixels_setting_limits_searches(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", picture_pixels=1000)
    with Client(create_app(settings)) as client:
        for size, status in (((10, 100), 200), ((10, 101), 413)):
            body = encoded(picture(1, size), "PNG")
            response = client.post("/search/captions", files={"image": ("a.png", body)})
            assert response.status_code == status


def test_picture_bytes_setting_limits_searches(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", picture_bytes=20_000)
    with Client(create_app(settings)) as client:
        for size in (20_001, 100_000):
            body = png_header(1, 1) + bytes(size)
            response = client.post("/search/captions", files={"image": ("a.png", body)})
            problem(response, 413, "body_too_large")


def test_search_by_picture_follows_exif_orientation(client: Client) -> None:
    def captions(body: bytes) -> list[int]:
        response = client.post("/search/captions", files={"image": ("a", body)})
        return [hit["caption_id"] for hit in response.json()["hits"]]

    exif = Image.Exif()
    exif[0x0112] = 3
    upside_down = picture(1).transpose(Image.Transpose.ROTATE_180)
    turned = encoded(upside_down, "PNG", exif=exif)
    assert captions(turned) == captions(encoded(picture(1), "PNG"))


def test_thumbnail_fits_its_size_and_is_not_enlarged(client: Client, collection: Path) -> None:
    usual = client.get("/images/1001/thumbnail")
    settings = Settings(library=collection, device="cpu", thumbnail_size=16)
    with Client(create_app(settings)) as other:
        small = other.get(
            "/images/1001/thumbnail", headers={"If-None-Match": usual.headers["etag"]}
        )
        assert Image.open(io.BytesIO(small.content)).size == (16, 12)
        engine = other.engine
        preview = other.run(engine.pictures.thumbnail_of_upload(encoded(picture(1, (4, 8)), "PNG")))
        assert Image.open(io.BytesIO(preview)).size == (4, 8)


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ENOENT, "picture_missing"), (errno.EMFILE, "busy"), (errno.ESTALE, "busy")],
)
def test_picture_that_cannot_be_opened_is_missing_unless_the_system_is_at_fault(
    number: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> DecodedPicture:
        raise OSError(number, os.strerror(number))

    pictures = PictureReader(Settings(), Preprocessing(), no_previews(), refused)
    with pytest.raises(ServiceError) as error:
        asyncio.run(pictures.reduced(tmp_path / "a.png", "thumbnail", "1"))
    pictures.close()
    assert error.value.reason == reason
    monkeypatch.setattr("hasse.service.core.pictures.open_regular", refused)
    with pytest.raises(ServiceError) as error:
        open_original(tmp_path / "a.png")
    assert error.value.reason == reason


def test_thumbnail_cache_is_bounded_and_keeps_the_latest() -> None:
    cache = ThumbnailCache(capacity=100)
    for at in range(10):
        cache.put(f"{at}", bytes(30))
        cache.get("0")
    assert [at for at in range(10) if cache.get(f"{at}")] == [0, 8, 9]
    cache.put("0", bytes(90))
    assert [at for at in range(10) if cache.get(f"{at}")] == [0]
    cache.put("huge", bytes(101))
    assert cache.get("huge") is None


def test_original_that_nobody_reads_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(GOOD["PNG"]())
    original = open_original(path)
    file, pieces = original.file, original.pieces()
    assert not file.closed
    del original, pieces
    assert file.closed
