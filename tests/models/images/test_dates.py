from __future__ import annotations

import errno
import io
import os
import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pillow_heif
import pytest
from PIL import Image, ImageFile
from PIL.PngImagePlugin import PngInfo

from hasse.models.images.dates import date_in
from hasse.models.images.decoding import date_taken

DIGITIZED, ORIGINAL, OFFSET = 36868, 36867, 36881
NOON = datetime(2023, 7, 4, 12, 30, tzinfo=UTC).timestamp() * 1000


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
            datetime(2023, 7, 4, 12, 30, tzinfo=UTC),
        ),
        ({ORIGINAL: "0000:00:00 00:00:00"}, datetime.fromtimestamp(1_000_000.001, UTC)),
        (
            {ORIGINAL: "2023:07:04 12:30:00", OFFSET: "+99:00"},
            datetime(2023, 7, 4, 12, 30, tzinfo=UTC),
        ),
        ({ORIGINAL: "2023-07-04T12:30:00"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        ({ORIGINAL: "2023/07/04 12:30"}, datetime(2023, 7, 4, 12, 30, tzinfo=UTC)),
        ({ORIGINAL: "2023:07:04"}, datetime(2023, 7, 4, tzinfo=UTC)),
        ({}, datetime.fromtimestamp(1_000_000.001, UTC)),
    ],
)
def test_date_is_that_of_the_camera_or_else_of_the_file(
    facts: dict[int, object], expected: datetime, tmp_path: Path
) -> None:
    assert date_taken(photograph(tmp_path / "a.jpg", facts)) == expected.timestamp() * 1000


def test_date_of_a_broken_file_is_the_files_and_of_none_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff\xe1\xff\xff broken")
    os.utime(tmp_path / "a.jpg", (5, 5))
    assert date_taken(tmp_path / "a.jpg") == 5001
    assert date_taken(tmp_path / "none.jpg") is None


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
    expected = datetime(2023, 7, 4, 12, 30, tzinfo=UTC).timestamp() * 1000
    assert date_taken(tmp_path / name) == expected


def test_date_of_a_heic_picture_is_read(tmp_path: Path) -> None:
    picture = Image.new("RGB", (64, 64))
    exif = picture.getexif()
    exif.get_ifd(0x8769)[ORIGINAL] = "2023:07:04 12:30:00"
    pillow_heif.from_pillow(picture).save(tmp_path / "a.heic", exif=exif.tobytes())
    expected = datetime(2023, 7, 4, 12, 30, tzinfo=UTC).timestamp() * 1000
    assert date_taken(tmp_path / "a.heic") == expected


def test_date_is_found_without_decoding_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile.ImageFile, "load", pytest.fail)
    assert date_in(io.BytesIO(png({}))) is None


def test_date_of_bytes_is_that_in_them_or_unknown(tmp_path: Path) -> None:
    dated = photograph(tmp_path / "a.jpg", {ORIGINAL: "2023:07:04 12:30:00"})
    assert date_taken(dated.read_bytes()) == NOON
    assert date_taken(png({})) is None


def test_date_is_not_guessed_where_no_file_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    dated = photograph(tmp_path / "a.jpg", {ORIGINAL: "2023:07:04 12:30:00"})
    monkeypatch.setattr("hasse.models.images.decoding.open_regular", refused)
    with pytest.raises(OSError, match="Too many open files"):
        date_taken(dated)


def test_taken_at_reads_the_tag_of_the_last_change(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[306] = "2023:07:04 12:30:00"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert date_taken(tmp_path / "a.jpg") == NOON


def test_taken_at_reads_exif_behind_the_pixels_of_a_png(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[305] = "a program"
    exif.get_ifd(0x8769)[ORIGINAL] = "2023:07:04 12:30:00"
    chunk = b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    whole = png({})
    at = whole.rindex(b"IEND") - 4
    length, check = struct.pack(">I", len(chunk) - 4), struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "a.png").write_bytes(whole[:at] + length + chunk + check + whole[at:])
    assert date_taken(tmp_path / "a.png") == NOON


def test_taken_at_reads_the_text_of_a_png(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png({"Creation Time": "2023-07-04T12:30:00+02:00"}))
    assert date_taken(tmp_path / "a.png") == NOON


@pytest.mark.parametrize(
    "date",
    [
        'exif:DateTimeOriginal="2023-07-04T12:30:00.00-08:00"',
        "><xmp:CreateDate>2023-07-04T12:30:00</xmp:CreateDate",
    ],
)
def test_taken_at_reads_xmp(date: str, tmp_path: Path) -> None:
    xmp = f"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta><rdf:Description {date}/></x:xmpmeta>".encode()
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "JPEG")
    jpeg, size = content.getvalue(), struct.pack(">H", len(xmp) + 2)
    (tmp_path / "a.jpg").write_bytes(jpeg[:2] + b"\xff\xe1" + size + xmp + jpeg[2:])
    assert date_taken(tmp_path / "a.jpg") == NOON


def png(texts: dict[str, str]) -> bytes:
    info = PngInfo()
    for key, text in texts.items():
        info.add_text(key, text)
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG", pnginfo=info)
    return content.getvalue()
