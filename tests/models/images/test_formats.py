"""Fifty pictures of fifteen formats and damages: each is read, or refused with its name."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from hasse.models.datasets import folder
from hasse.models.images import codecs
from hasse.models.images.decoding import open_picture, picture_size
from hasse.models.images.formats import FORMATS, Format, format_of
from hasse.models.images.limits import PictureError, PictureLimits
from tests.models.images.pictures import chunk, close, encode, noise, png_header
from tests.models.images.raw_pictures import dng

Make = Callable[[], bytes]


def scene(size: tuple[int, int] = (96, 64)) -> Image.Image:
    """Return a picture whose colours every codec keeps."""
    pixels = np.indices((4, 6)).sum(0) * 20 + 40
    small = Image.fromarray(np.stack([pixels, 255 - pixels, pixels // 2], -1).astype(np.uint8))
    return small.resize(size, Image.Resampling.BILINEAR)


def heic(**how: object) -> bytes:
    out = io.BytesIO()
    pillow_heif.from_pillow(scene()).save(out, **how)
    return out.getvalue()


def without_end(data: bytes, missing: int) -> bytes:
    return data[: len(data) - missing]


def beside(*chunks: bytes) -> bytes:
    """Return a PNG with chunks before its pixels."""
    data = encode(scene(), "PNG")
    at = data.index(b"IDAT") - 4
    return data[:at] + b"".join(chunks) + data[at:]


def segment(code: int, content: bytes, length: int | None = None) -> bytes:
    """Return a JPEG with a segment before its others."""
    data = encode(scene(), "JPEG")
    size = len(content) + 2 if length is None else length
    return data[:2] + struct.pack(">BBH", 0xFF, code, size) + content + data[2:]


def exif() -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = 6
    return tags


READ: dict[str, Make] = {
    "a.jpg": lambda: encode(scene(), "JPEG"),
    "progressive.jpg": lambda: encode(scene(), "JPEG", progressive=True),
    "cmyk.jpg": lambda: encode(scene().convert("CMYK"), "JPEG"),
    "a.mpo": lambda: encode(scene(), "MPO", save_all=True, append_images=[noise()]),
    "a.jfif": lambda: encode(scene(), "JPEG"),
    "a.JPG_large": lambda: encode(scene(), "JPEG"),
    "no extension": lambda: encode(scene(), "JPEG"),
    "called.png": lambda: encode(scene(), "JPEG"),
    "called.heic": lambda: encode(scene(), "JPEG"),
    "no end.jpg": lambda: without_end(encode(scene(), "JPEG"), 2),
    "half an end.jpg": lambda: without_end(encode(scene(), "JPEG"), 1),
    "progressive without end.jpg": lambda: without_end(
        encode(scene(), "JPEG", progressive=True), 2
    ),
    "last rows missing.jpg": lambda: without_end(encode(scene(), "JPEG", quality=95), 60),
    "broken profile.jpg": lambda: segment(0xE2, b"ICC_PROFILE\0\x07\x01"),
    "broken exif.jpg": lambda: segment(0xE1, b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"),
    "segment too long.jpg": lambda: segment(0xED, b"Photoshop", 12),
    "gain map behind.jpg": lambda: (
        encode(scene(), "JPEG") + encode(noise(), "JPEG", progressive=True)
    ),
    "thumbnail inside.jpg": lambda: segment(0xE1, b"Exif\0\0" + encode(noise(), "JPEG")),
    "film behind.jpg": lambda: encode(scene(), "JPEG") + b"\0\0\0\x18ftypmp42" * 1000,
    "a.png": lambda: encode(scene(), "PNG"),
    "alpha.png": lambda: encode(scene().convert("RGBA"), "PNG"),
    "broken profile.png": lambda: beside(chunk(b"iCCP", b"no profile")),
    "huge text.png": lambda: beside(chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(90_000_000)))),
    "broken text.png": lambda: beside(chunk(b"zTXt", b"a\0\7broken"), chunk(b"iTXt", b"a\0\1\1")),
    "broken time.png": lambda: beside(chunk(b"tIME", b"now")),
    "wrong checksum.png": lambda: beside(chunk(b"tEXt", b"a\0b")[:-4] + b"abcd"),
    "no end.png": lambda: without_end(encode(scene(), "PNG"), 12),
    "a.webp": lambda: encode(scene(), "WEBP"),
    "lossless.webp": lambda: encode(scene(), "WEBP", lossless=True),
    "moving.gif": lambda: encode(scene(), "GIF", save_all=True, append_images=[noise(96, 64)]),
    "no end.gif": lambda: without_end(encode(scene(), "GIF"), 1),
    "a.avif": lambda: encode(scene(), "AVIF"),
    "alpha.avif": lambda: encode(scene().convert("RGBA"), "AVIF"),
    "a.tif": lambda: encode(scene(), "TIFF"),
    "packed.tiff": lambda: encode(scene(), "TIFF", compression="tiff_adobe_deflate"),
    "two pages.tif": lambda: encode(scene(), "TIFF", save_all=True, append_images=[noise()]),
    "big.tif": lambda: encode(scene(), "TIFF", big_tiff=True),
    "a.bmp": lambda: encode(scene(), "BMP"),
    "16 bits.bmp": lambda: bmp(16, (0xF800, 0x7E0, 0x1F)),
    "16 bits with a long header.bmp": lambda: bmp(16, (0x7C00, 0x3E0, 0x1F, 0x8000), 124, 0x8000),
    "32 bits.bmp": lambda: bmp(32, (0xFF0000, 0xFF00, 0xFF)),
    "alpha.bmp": lambda: bmp(32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000), 108, 0xFF000000),
    "alpha left at zero.bmp": lambda: bmp(32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000), 124),
    "a.jp2": lambda: encode(scene(), "JPEG2000"),
    "a.j2k": lambda: encode(scene(), "JPEG2000", no_jp2=True),
    "a.heic": heic,
    "good.heif": lambda: heic(quality=90),
}


def bmp(bits: int, masks: tuple[int, ...], header: int = 40, alpha: int = 0) -> bytes:
    """Return a BMP whose colours lie in bit fields, as Windows and .NET write them."""
    rows = b""
    for row in np.asarray(scene())[::-1]:
        values = [alpha] * len(row)
        for mask, colours in zip(masks, row.T, strict=False):
            shift, width = (mask & -mask).bit_length() - 1, mask.bit_count()
            values = [
                v | int(c) >> (8 - width) << shift for v, c in zip(values, colours, strict=True)
            ]
        rows += b"".join(value.to_bytes(bits // 8, "little") for value in values)
    fields = struct.pack(f"<{len(masks)}I", *masks)
    info = struct.pack("<IiiHHIIiiII", header, 96, 64, 1, bits, 3, 0, 2835, 2835, 0, 0)
    start = (info + fields).ljust(header, b"\0") if header > 40 else info + fields
    return (
        b"BM"
        + struct.pack("<IHHI", 14 + len(start) + len(rows), 0, 0, 14 + len(start))
        + start
        + rows
    )


REFUSED: dict[str, tuple[Make, str]] = {
    "empty.jpg": (lambda: b"", "the file is empty"),
    "text.jpg": (lambda: b"no picture", "not a picture that Hasse can read"),
    "half.jpg": (lambda: encode(scene(), "JPEG")[:700], "damaged or cut short"),
    "half.png": (lambda: encode(noise(96, 64), "PNG")[:9000], "damaged or cut short"),
    "half.webp": (lambda: encode(scene(), "WEBP")[:150], "damaged or cut short"),
    "half.avif": (lambda: encode(scene(), "AVIF")[:250], "damaged or cut short"),
    "half.heic": (lambda: heic()[:300], "damaged or cut short"),
    "half.dng": (lambda: dng()[:3000], "damaged or cut short"),
    "bomb.png": (
        lambda: png_header(60_000, 60_000),
        "60,000 x 60,000 pixels are more than the limit",
    ),
    "12 bits.bmp": (lambda: bmp(16, (0xF00, 0xF0, 0xF)), "damaged or cut short"),
    "a.svg": (lambda: b"<svg/>", "format that is not read, convert it to JPEG"),
    "a.jxl": (lambda: b"\xff\x0a" + bytes(99), "format that is not read, convert it to JPEG"),
}


def test_there_are_fifty_pictures_of_fifteen_formats_and_damages() -> None:
    assert len(READ) + len(REFUSED) + len(RAW) >= 50
    suffixes = {Path(name).suffix.lower() for name in (*READ, *REFUSED, *RAW)}
    assert len(suffixes) >= 15


@pytest.mark.parametrize("name", READ)
def test_picture_that_a_viewer_shows_is_read(name: str) -> None:
    read, expected = open_picture(READ[name]()), scene()
    assert read.size == picture_size(READ[name]()) == expected.size
    gap = np.abs(np.asarray(read).astype(int) - np.asarray(expected))
    assert gap[: int(gap.shape[0] * 0.8)].mean() < 10


def test_folder_of_all_of_them_reads_or_names_each(tmp_path: Path) -> None:
    made = {name: make() for name, make in READ.items()}
    made |= {name: make() for name, (make, _) in REFUSED.items()}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    dataset, skipped = folder.read(tmp_path)
    read = set()
    for image in dataset.images:
        try:
            open_picture(image.path)
            read.add(image.file_name)
        except PictureError as error:  # its pixels are damaged, not its header
            skipped.add(image.file_name, f"{error.reason} picture", detail=str(error))
    assert read == set(READ)
    told = "\n".join(skipped.lines)
    for name, (_, reason) in REFUSED.items():
        assert name in told
        line = next(line for line in skipped.lines if name in line)
        assert reason in line
    assert skipped.total == len(REFUSED)
    assert not skipped.passed_over


RAW: dict[str, Make] = {
    "developed.dng": dng,
    "preview.dng": lambda: dng(preview=scene((384, 256))),
    "preview.nef": lambda: dng(preview=scene((384, 256)), orientation=6),
    "small preview.arw": lambda: dng(preview=scene((96, 64))),
}


def test_raw_picture_shows_its_preview_upright() -> None:
    upright = np.asarray(scene((384, 256))).astype(int)
    for orientation, turn in ((1, 0), (6, 1), (8, 3), (3, 2)):
        data = dng(preview=scene((384, 256)), orientation=orientation)
        back = np.rot90(np.asarray(open_picture(data)), turn)
        assert np.abs(back - upright).mean() < 3
        assert picture_size(data) == ((64, 48) if turn in {0, 2} else (48, 64))


@pytest.mark.parametrize("name", ["developed.dng", "small preview.arw"])
def test_raw_picture_without_a_large_preview_is_developed(name: str) -> None:
    data = RAW[name]()
    assert open_picture(data, at_least=25).size == (64, 48)
    read = open_picture(data, at_least=24)
    assert read.size == (32, 24)
    red, green, blue = np.asarray(read).mean((0, 1))
    assert green > 200 > red
    assert green > 200 > blue


def test_raw_picture_above_the_limit_is_not_developed() -> None:
    with pytest.raises(PictureError, match="64 x 48 pixels") as caught:
        open_picture(dng(), PictureLimits(64 * 48 - 1))
    assert caught.value.reason == "too_many_pixels"


@pytest.mark.parametrize(
    ("package", "make", "said"),
    [
        ("pillow_heif", heic, 'a HEIC picture: pip install -e ".[heic]" reads these'),
        ("rawpy", dng, 'a RAW picture: pip install -e ".[raw]" reads these'),
    ],
)
def test_format_whose_package_is_missing_names_it(
    package: str, make: Make, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for read in (codecs.decode, codecs.size_of):
        with pytest.raises(PictureError) as caught:
            read(io.BytesIO(make()), PictureLimits())
        assert (caught.value.reason, str(caught.value)) == ("missing_package", said)


def test_each_format_is_told_by_its_first_bytes() -> None:
    found = {str(format_of(io.BytesIO(make()))) for make in (*READ.values(), *RAW.values())}
    assert found == {str(each) for each in FORMATS}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"II*\0\x10\0\0\0CR\x02\0", "RAW"),
        (b"FUJIFILMCCD-RAW 0201", "RAW"),
        (b"\0\0\0\x18ftypcrx \0\0\0\1crx isom", "RAW"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "AVIF"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\2\0isommp42", None),
        (b"BM is no picture of that name", None),
        (b"MM\0*\xff\xff\xff\xff", "TIFF"),
    ],
)
def test_format_of_files_that_begin_alike(start: bytes, expected: str | None) -> None:
    found: Format | None = format_of(io.BytesIO(start))
    assert (found.name if found else None) == expected


def test_flat_picture_without_an_end_is_read() -> None:
    flat = Image.new("RGB", (64, 64), (250, 250, 250))
    assert close(open_picture(encode(flat, "JPEG")[:-2]), (250, 250, 250))
