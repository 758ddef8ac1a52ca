"""What lies beside the pixels of a JPEG or PNG is dropped, within bounds."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.models.images.decoding import open_picture, picture_size
from hasse.models.images.limits import MAX_METADATA, MAX_SCANS, PictureError
from hasse.models.images.stripping import orientation_of, strip_jpeg
from tests.models.images.pictures import chunk, encode, noise, refusal


def scanned(times: int) -> bytes:
    """Return a progressive JPEG of so many scans, most of which add nothing."""
    data = encode(Image.new("L", (16, 16), 128), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * (times - data.count(b"\xff\xda")) + data[-2:]


def test_jpeg_that_draws_its_pixels_over_and_over_is_refused() -> None:
    assert open_picture(scanned(MAX_SCANS)).size == (16, 16)
    for options in ({}, {"at_least": 8}):
        refused = refusal(scanned(MAX_SCANS + 1), **options)
        assert (refused.reason, str(refused)) == ("damaged", "it has more than 100 scans")


def test_only_a_jpegs_own_scans_are_counted() -> None:
    many = b"\xff\xda" * 2 * MAX_SCANS
    data = encode(noise(), "JPEG", comment=many)
    assert many in data
    assert open_picture(data + many).size == (48, 32), "a film behind it, too"


@pytest.mark.parametrize("length", [0, 1, *range(4091, 4097), *range(65_531, 65_537), 200_000])
def test_scans_of_any_length_are_counted(length: int) -> None:
    scan = b"\xff\xda\x00\x02" + b"\x01\xff\x00\xff\xd0\xff\xff"[:length].ljust(length, b"\x01")
    strip_jpeg(io.BytesIO(b"\xff\xd8" + scan * MAX_SCANS), whole=True)
    with pytest.raises(PictureError):
        strip_jpeg(io.BytesIO(b"\xff\xd8" + scan * (MAX_SCANS + 1)), whole=True)


@pytest.mark.parametrize(
    ("form", "before", "note"),
    [
        ("JPEG", b"\xff\xda", b"\xff\xfe\0\2"),
        ("JPEG", b"\xff\xda", b"\xff\xe1\0\x09Exif\0\0a"),
        ("PNG", b"IDAT", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
        ("PNG", b"IEND", b"\0\0\0\0abCd\x78\x06\xe9\xb3"),
    ],
)
def test_picture_with_too_many_blocks_of_metadata_is_refused(
    form: str, before: bytes, note: bytes
) -> None:
    plain = encode(noise(), form)
    at = plain.index(before) - (4 if form == "PNG" else 0)
    allowed, many = (
        plain[:at] + note * count + plain[at:] for count in (MAX_METADATA - 9, MAX_METADATA + 1)
    )
    assert np.array_equal(np.asarray(open_picture(allowed)), np.asarray(open_picture(plain)))
    assert picture_size(allowed) == (48, 32)
    refused = refusal(many)
    assert (refused.reason, str(refused)) == (
        "damaged",
        "it has more than 10,000 blocks of metadata",
    )
    if before != b"IEND":  # the size is asked of the header alone
        with pytest.raises(PictureError, match="10,000 blocks"):
            picture_size(many)


@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_colour_profiles_text_and_times_of_a_png_are_never_inflated(before: bytes) -> None:
    huge = zlib.compress(bytes(10_000_000))
    broken = chunk(b"tIME", b"no time") + chunk(b"tEXt", b"no end") + chunk(b"pHYs", b"")
    profile = b"\0\0\0\x04iCCPabcdBAD!"  # with a wrong checksum
    beside = (chunk(b"iCCP", b"x\0\0" + huge) + chunk(b"zTXt", b"x\0\0" + huge)) * 100
    plain = encode(noise(), "PNG")
    at = plain.index(before) - 4
    data = plain[:at] + beside + broken + profile + plain[at:]
    assert np.array_equal(np.asarray(open_picture(data)), np.asarray(open_picture(plain)))
    assert picture_size(data) == (48, 32)


def test_broken_segments_of_a_jpeg_are_dropped() -> None:
    plain = encode(noise(), "JPEG")
    profile = b"\xff\xe2\0\x0fICC_PROFILE\0\x09"
    too_long = b"\xff\xe5\0\x09abcdef"  # and so the next marker is not where it should be
    photoshop = b"\xff\xed\0\x20Photoshop 3.0\0" + b"8BIM" + b"\xff" * 12
    comment = b"\xff\xfe\0\x06\xff\xd9\xff\xda"
    exif = b"\xff\xe1\0\x14Exif\0\0II*\0" + b"\xff" * 8
    data = plain[:2] + exif + profile + comment + too_long + photoshop + plain[2:]
    assert np.array_equal(np.asarray(open_picture(data)), np.asarray(open_picture(plain)))


def test_file_in_pieces_reads_like_one(tmp_path: Path) -> None:
    plain = encode(noise(), "JPEG")
    comment = b"\xff\xfe\0\x06abcd"
    (tmp_path / "a").write_bytes(plain[:2] + comment * 3 + plain[2:-2])
    with (tmp_path / "a").open("rb") as file:
        pieces = strip_jpeg(file, whole=True).file
        assert pieces.read() == plain
        for at in (0, 1, 2, 3, len(plain) - 3, len(plain) - 1, len(plain), len(plain) + 5):
            assert pieces.seek(at) == at
            assert pieces.read(7) == plain[at : at + 7]
        assert pieces.seek(-2, io.SEEK_END) == len(plain) - 2


@pytest.mark.parametrize(
    ("exif", "expected"),
    [
        (b"", 1),
        (b"Exif\0\0", 1),
        (b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0", 6),
        (b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\4\0\1\0\0\0\3\0\0\0", 3),
        (b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0", 1),
        (b"II*\0\xff\xff\xff\xff", 1),
        (b"II*\0\x08\0\0\0\xff\xff" + b"\x11" * 12, 1),
    ],
)
def test_orientation_of_is_1_unless_exif_says_so(exif: bytes, expected: int) -> None:
    assert orientation_of(exif) == expected
