from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pillow_heif
import pytest
from PIL import Image, ImageFile

from hasse.models.images.taken import taken_at

DIGITIZED, ORIGINAL, OFFSET = 36868, 36867, 36881


def photograph(path: Path, facts: dict[int, object]) -> Path:
    exif = Image.Exif()
    exif.get_ifd(0x8769).update(facts)
    Image.new("RGB", (8, 8)).save(path, exif=exif)
    os.utime(path, (1_000_000, 1_000_000))
    return path


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({ORIGINAL: "2023:07:04 12:30:00"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        ({DIGITIZED: "2023:07:04 12:30:00"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        (
            {ORIGINAL: "2023:07:04 12:30:00", OFFSET: "+02:00"},
            datetime(2023, 7, 4, 10, 30, tzinfo=UTC),
        ),
        ({ORIGINAL: "0000:00:00 00:00:00"}, datetime.fromtimestamp(1_000_000, UTC)),
        (
            {ORIGINAL: "2023:07:04 12:30:00", OFFSET: "+99:00"},
            datetime(2023, 7, 4, 12, 30, tzinfo=UTC),
        ),
        ({}, datetime.fromtimestamp(1_000_000, UTC)),
    ],
)
def test_date_is_that_of_the_camera_or_else_of_the_file(
    facts: dict[int, object], expected: datetime, tmp_path: Path
) -> None:
    assert taken_at(photograph(tmp_path / "a.jpg", facts)) == expected.timestamp() * 1000


def test_date_of_a_broken_file_is_the_files_and_of_none_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff\xe1\xff\xff broken")
    os.utime(tmp_path / "a.jpg", (5, 5))
    assert taken_at(tmp_path / "a.jpg") == 5000
    assert taken_at(tmp_path / "none.jpg") is None


@pytest.mark.parametrize(
    ("name", "size"),
    [("a.jpg", (12_000, 9000)), ("a.png", (8, 8)), ("a.tif", (8, 8)), ("a.avif", (8, 8))],
)
def test_date_is_read_from_every_format_and_size(
    name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x010F] = "a camera"  # without a tag of its own, Pillow writes none of it
    exif.get_ifd(0x8769)[ORIGINAL] = "2023:07:04 12:30:00"
    Image.new("L", size).save(tmp_path / name, exif=exif.tobytes())
    assert taken_at(tmp_path / name) == datetime(2023, 7, 4, 12, 30, tzinfo=UTC).timestamp() * 1000


def test_date_of_a_heic_picture_is_read(tmp_path: Path) -> None:
    picture = Image.new("RGB", (64, 64))
    exif = picture.getexif()
    exif.get_ifd(0x8769)[ORIGINAL] = "2023:07:04 12:30:00"
    pillow_heif.from_pillow(picture).save(tmp_path / "a.heic", exif=exif.tobytes())
    expected = datetime(2023, 7, 4, 12, 30, tzinfo=UTC).timestamp() * 1000
    assert taken_at(tmp_path / "a.heic") == expected


def test_date_is_found_without_decoding_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    os.utime(tmp_path / "a.png", (5, 5))
    monkeypatch.setattr(ImageFile.ImageFile, "load", pytest.fail)
    assert taken_at(tmp_path / "a.png") == 5000
