"""Bytes beside the pixels of a picture cost nobody the picture, and repeated pixels are bounded."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.models.images.codecs import decode
from hasse.models.images.decoding import open_picture, picture_size
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from tests.models.images.pictures import chunk, close, encode, flat, noise, refusal, scanned


def test_decode_jpeg_with_more_scans_than_its_size_allows_is_refused() -> None:
    limits = PictureLimits(1000)  # 40,000 pixels of all scans
    assert open_picture(scanned(156), limits).size == (16, 16)
    for options in ({}, {"at_least": 8}):
        refused = refusal(scanned(157), limits=limits, **options)
        assert (refused.reason, str(refused)) == ("damaged", "157 scans of 16 x 16 pixels")


def test_decode_jpeg_counts_only_its_own_scans() -> None:
    many = b"\xff\xda" * 1000
    limits = PictureLimits(48 * 32)
    data = encode(noise(), "JPEG", comment=many)
    assert many in data
    assert open_picture(data + many, limits).size == (48, 32), "a film behind it, too"


class Counted(io.FileIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        found = super().read(-1 if size is None else size)
        self.count += len(found)
        return found


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_decode_reads_no_gigabyte_behind_a_picture(form: str, tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(encode(noise(), form))
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    with Counted(path) as counted:
        assert decode(counted, DEFAULT_LIMITS).size == (48, 32)
        assert counted.count < 20_000_000


@pytest.mark.parametrize(
    ("form", "before", "note"),
    [
        ("JPEG", b"\xff\xda", b"\xff\xfe\0\2"),
        ("JPEG", b"\xff\xda", b"\xff\xe1\0\x09Exif\0\0a"),
        ("PNG", b"IDAT", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
        ("PNG", b"IEND", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
    ],
)
def test_decode_picture_with_thousands_of_blocks_of_metadata_is_read(
    form: str, before: bytes, note: bytes
) -> None:
    plain = encode(noise(), form)
    at = plain.index(before) - (4 if form == "PNG" else 0)
    many = plain[:at] + note * 10_000 + plain[at:]
    assert np.array_equal(np.asarray(open_picture(many)), np.asarray(open_picture(plain)))
    assert picture_size(many) == (48, 32)


@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_decode_png_with_damaged_and_huge_metadata_is_read(before: bytes) -> None:
    huge = zlib.compress(bytes(10_000_000))
    broken = chunk(b"tIME", b"no time") + chunk(b"tEXt", b"no end") + chunk(b"pHYs", b"")
    profile = b"\0\0\0\x04iCCPabcdBAD!"  # with a wrong checksum
    beside = (chunk(b"iCCP", b"x\0\0" + huge) + chunk(b"zTXt", b"x\0\0" + huge)) * 100
    plain = encode(noise(), "PNG")
    at = plain.index(before) - 4
    data = plain[:at] + beside + broken + profile + plain[at:]
    assert np.array_equal(np.asarray(open_picture(data)), np.asarray(open_picture(plain)))
    assert picture_size(data) == (48, 32)


def test_decode_jpeg_with_broken_segments_is_read() -> None:
    plain = encode(noise(), "JPEG")
    profile = b"\xff\xe2\0\x0fICC_PROFILE\0\x09"
    too_long = b"\xff\xe5\0\x09abcdef"  # and so the next marker is not where it should be
    photoshop = b"\xff\xed\0\x20Photoshop 3.0\0" + b"8BIM" + b"\xff" * 12
    comment = b"\xff\xfe\0\x06\xff\xd9\xff\xda"
    exif = b"\xff\xe1\0\x14Exif\0\0II*\0" + b"\xff" * 8
    data = plain[:2] + exif + profile + comment + too_long + photoshop + plain[2:]
    assert np.array_equal(np.asarray(open_picture(data)), np.asarray(open_picture(plain)))


@pytest.mark.parametrize(
    ("exif", "size"),
    [
        (b"", (48, 32)),
        (b"Exif\0\0", (48, 32)),
        (b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0", (32, 48)),
        (b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\4\0\1\0\0\0\6\0\0\0", (32, 48)),
        (b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0", (48, 32)),
        (b"II*\0\xff\xff\xff\xff", (48, 32)),
        (b"II*\0\x08\0\0\0\xff\xff" + b"\x11" * 12, (48, 32)),
    ],
)
def test_decode_follows_the_orientation_only_of_sound_exif(
    exif: bytes, size: tuple[int, int]
) -> None:
    data = encode(noise(), "PNG")
    at = data.index(b"IDAT") - 4
    data = data[:at] + chunk(b"eXIf", exif) + data[at:]
    assert open_picture(data).size == picture_size(data) == size


def test_decode_gif_leaves_the_uncovered_area_white() -> None:
    data = bytearray(encode(flat((200, 30, 40), size=(4, 4)), "GIF"))
    data[6:10] = b"\x08\0\x06\0"  # a screen of 8 x 6
    picture = open_picture(bytes(data))
    assert picture.size == (8, 6)
    assert close(picture.crop((0, 0, 4, 4)), (200, 30, 40))
    assert close(picture.crop((4, 0, 8, 6)), (255, 255, 255))
    assert close(picture.crop((0, 4, 8, 6)), (255, 255, 255))


def test_decode_tells_the_size_and_format_before_any_reduction() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    data = encode(noise(90, 60).resize((900, 600)), "JPEG", exif=turned)
    found = decode(io.BytesIO(data), DEFAULT_LIMITS, at_least=64)
    assert (found.size, found.image.size, found.format.name) == ((600, 900), (75, 113), "JPEG")
