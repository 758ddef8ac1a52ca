"""Previews: their sizes, their cache on disk, and all formats."""

from __future__ import annotations

import io
import os
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.core.pictures import version_of
from hasse.service.core.previews import (
    PREVIEW_SIZES,
    SHORTEST,
    PreviewCache,
    PreviewSize,
    encode_preview,
    preview_size,
)
from hasse.service.runtime.previewing import make_previews
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, picture
from tests.service.hostile_pictures import GOOD

SIDES = st.integers(1, 60_000)
SIZES = st.sampled_from(PREVIEW_SIZES)


@given(SIDES, SIDES, SIZES)
def test_preview_size_keeps_the_shape_and_never_enlarges(
    width: int, height: int, size: PreviewSize
) -> None:
    wide, high = preview_size(width, height, size)
    assert 1 <= wide <= min(width, 16_383)
    assert 1 <= high <= min(height, 16_383)
    assert min(wide, high) <= SHORTEST[size] + 1
    # Each side is rounded, and at least 1.
    assert abs(wide * height - high * width) <= max(width, height)


def test_large_preview_is_sharp_on_a_screen_of_4k() -> None:
    for width, height in ((8000, 6000), (6000, 8000), (4000, 4000), (30_000, 1_500)):
        wide, high = preview_size(width, height, "large")
        fitted = min(3840 / width, 2160 / height)
        assert wide >= int(fitted * width)
        assert high >= int(fitted * height)


def test_encode_preview_gives_a_webp_of_the_size() -> None:
    shown = Image.open(io.BytesIO(encode_preview(picture(1), 32, 24)))
    assert (shown.format, shown.size) == ("WEBP", (32, 24))


def test_preview_cache_drops_the_least_recently_used_beyond_its_capacity(tmp_path: Path) -> None:
    cache = PreviewCache(tmp_path, 10_000)
    content = encode_preview(Image.new("RGB", (8, 8)), 8, 8)
    content += bytes(1000 - len(content))
    content = content[:4] + (992).to_bytes(4, "little") + content[8:]
    for at in range(30):
        cache.put(f"{at:02}", content)
        cache.get("00")  # its time of use is later than that of the next
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 10_000
    assert len(files) >= 5
    assert cache.get("29") == content
    assert cache.get("01") is None


def test_preview_cache_ignores_a_file_that_was_cut_short(tmp_path: Path) -> None:
    cache = PreviewCache(tmp_path, 1_000_000)
    content = encode_preview(picture(1), 32, 24)
    cache.put("abc", content)
    assert cache.get("abc") == content
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(content[:-1])
    assert cache.get("abc") is None
    cache.put("abc", content)
    assert cache.get("abc") == content


def test_preview_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = PreviewCache(tmp_path / "file", 1_000_000)
    cache.put("abc", encode_preview(picture(1), 32, 24))
    assert cache.get("abc") is None


def test_every_format_that_is_read_has_previews(tmp_path: Path) -> None:
    library = make_collection(tmp_path)
    with Index.open(library, threads=1) as index:
        (point,) = index.points("image", [1000]).values()
        for name in GOOD:
            (tmp_path / name).write_bytes(GOOD[name]())
        rows = [ImageRow(at, name, str(tmp_path / name)) for at, name in enumerate(GOOD)]
        index.add(rows, np.stack([point] * len(rows)))
    with Client(create_app(Settings(library=library, device="cpu"))) as client:
        for at, name in enumerate(GOOD):
            for size in PREVIEW_SIZES:
                response = client.get(f"/images/{at}/preview/{size}")
                assert response.status_code == 200, name
                assert response.headers["content-type"] == "image/webp"
                assert Image.open(io.BytesIO(response.content)).format == "WEBP"
        assert client.get("/images/1000/preview/huge").status_code == 422


def test_preview_is_made_once_and_kept_across_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(library=make_collection(tmp_path), device="cpu")
    with Client(create_app(settings)) as client:
        first = client.get("/images/1001/preview/medium").content
    with Client(create_app(settings)) as client:

        def refused(*_: object) -> None:
            raise AssertionError("it is not decoded again")

        monkeypatch.setattr(client.engine.pictures, "_decode", refused)
        assert client.get("/images/1001/preview/medium").content == first


def test_previews_made_ahead_are_those_that_the_service_sends(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    (tmp_path / "pictures" / "picture-4.png").unlink()
    settings = Settings(library=folder, device="cpu")
    with Index.open(folder, threads=1) as index:
        tried: set[tuple[int, str]] = set()
        assert make_previews(index, settings, tried) == IMAGES - 1
        assert len(tried) == IMAGES - 1, "one that cannot be read is tried again"
        assert make_previews(index, settings, set()) == 0
        assert make_previews(index, settings, tried) == 0
    made = {path.read_bytes() for path in (folder / "previews").rglob("*.webp")}
    with Client(create_app(settings)) as client:
        sent = {client.get(f"/images/{1000 + at}/preview/medium").content for at in (0, 1, 2)}
    assert sent <= made


def test_previews_made_ahead_drop_no_other(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder, threads=1) as index:
        make_previews(index, Settings(library=folder), set())
        size = sum(path.stat().st_size for path in (folder / "previews").rglob("*.webp"))
        rmtree(folder / "previews")
        small = Settings(library=folder, preview_cache_bytes=9 * size // 10)
        made = make_previews(index, small, set())
    assert 0 < made < IMAGES
    assert len(list((folder / "previews").rglob("*.webp"))) == made


def test_previews_of_removed_and_changed_pictures_are_swept(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    settings = Settings(library=folder, device="cpu")
    with Client(create_app(settings)) as client:
        for id_ in (1000, 1001, 1002, 1003):
            client.get(f"/images/{id_}/preview/medium")
        kept = set((folder / "previews").rglob("*.webp"))
        engine, pictures = client.engine, tmp_path / "pictures"
        engine.index.remove([1000])
        (pictures / "picture-1.png").write_bytes((pictures / "picture-2.png").read_bytes())
        (pictures / "picture-3.png").rename(tmp_path / "away.png")
        engine.pictures.sweep_previews(engine.index)
        left = {path.name.partition("-")[0] for path in (folder / "previews").rglob("*.webp")}
        assert len(kept) == 4
        assert left == {"1002", "1003"}, "a file that is out of reach is not gone"


def test_version_of_a_picture_changes_though_its_size_and_time_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1))
    before = version_of(path)
    path.write_bytes(b"new")
    os.utime(path, ns=(1, 1))
    assert version_of(path) != before
