"""Detects the format of a picture by its first bytes. Names and extensions are not trusted."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hasse.models.regular_file import NotRegularFile, open_regular

START = 64  # bytes that identify a format

# Usual extensions of pictures: other files need not be opened. The bytes decide.
_SUFFIXES = """
.arw .avif .bmp .cr2 .cr3 .dng .gif .heic .heif .j2k .jfif .jp2 .jpe .jpeg .jpg .mpo .nef .orf
.pef .png .raf .rw2 .srw .tif .tiff .webp
"""
PICTURE_SUFFIXES = frozenset(_SUFFIXES.split())


@dataclass(frozen=True, slots=True)
class Format:
    """A supported format: its common name, media type and usual extension.

    Attributes:
        in_browsers: whether browsers display it.
    """

    name: str
    media_type: str
    suffix: str
    in_browsers: bool = False


JPEG = Format("JPEG", "image/jpeg", ".jpg", in_browsers=True)  # MPO too: a JPEG, then others
PNG = Format("PNG", "image/png", ".png", in_browsers=True)
WEBP = Format("WebP", "image/webp", ".webp", in_browsers=True)
GIF = Format("GIF", "image/gif", ".gif", in_browsers=True)
AVIF = Format("AVIF", "image/avif", ".avif", in_browsers=True)
TIFF = Format("TIFF", "image/tiff", ".tif")
BMP = Format("BMP", "image/bmp", ".bmp", in_browsers=True)
JPEG_2000 = Format("JPEG 2000", "image/jp2", ".jp2")
HEIC = Format("HEIC", "image/heic", ".heic")
RAW = Format("RAW", "image/x-dcraw", ".raw")

FORMATS = (JPEG, PNG, WEBP, GIF, AVIF, TIFF, BMP, JPEG_2000, HEIC, RAW)

_STARTS = {
    b"\xff\xd8\xff": JPEG,
    b"\x89PNG\r\n\x1a\n": PNG,
    b"GIF87a": GIF,
    b"GIF89a": GIF,
    b"\0\0\0\x0cjP  \r\n\x87\n": JPEG_2000,
    b"\xff\x4f\xff\x51": JPEG_2000,
    b"II*\0": TIFF,
    b"MM\0*": TIFF,
    b"II+\0": TIFF,
    b"MM\0+": TIFF,
    b"FUJIFILMCCD-RAW": RAW,
    b"IIRO": RAW,  # Olympus
    b"IIRS": RAW,
    b"MMOR": RAW,
    b"IIU\0": RAW,  # Panasonic
}
_BRANDS = {b"avif": AVIF, b"avis": AVIF, b"crx ": RAW} | dict.fromkeys(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"), HEIC
)
_BMP_HEADERS = {12, 40, 52, 56, 64, 108, 124}

# Photometric interpretations (tag 262) of a TIFF with a camera's sensor data.
_PHOTOMETRIC, _SUB_DIRECTORIES = 262, 330
_SENSOR_DATA = {32803, 34892}
_MAX_DIRECTORIES, _MAX_ENTRIES = 10, 1000


def format_of(file: IO[bytes]) -> Format | None:
    """Return the format of a file, or None if unsupported. Leaves the file at its start."""
    file.seek(0)
    kind = _format_by_start(file.read(START))
    if kind is TIFF and _holds_sensor_data(file):
        kind = RAW
    file.seek(0)
    return kind


def is_picture(path: Path) -> bool:
    """Return whether a file starts like a picture; raises OSError if it cannot be read."""
    try:
        with open_regular(path) as file:
            return _format_by_start(file.read(START)) is not None
    except NotRegularFile:
        return False


def _format_by_start(start: bytes) -> Format | None:
    for magic, kind in _STARTS.items():
        if start.startswith(magic):
            return RAW if kind is TIFF and start[8:10] == b"CR" else kind  # Canon's CR2
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WEBP
    if start.startswith(b"BM") and int.from_bytes(start[14:18], "little") in _BMP_HEADERS:
        return BMP
    if start[4:8] == b"ftyp":
        size = min(int.from_bytes(start[:4], "big"), START)
        brands = {start[8:12], *(start[at : at + 4] for at in range(16, size - 3, 4))}
        return next((kind for brand, kind in _BRANDS.items() if brand in brands), None)
    return None


def _holds_sensor_data(file: IO[bytes]) -> bool:
    """Return whether a TIFF is a RAW picture (DNG, NEF, ARW, ...), by its first directories."""
    try:
        file.seek(0)
        order = "<" if file.read(2) == b"II" else ">"
        file.seek(4)
        waiting = list(struct.unpack(f"{order}I", file.read(4)))
        for _ in range(_MAX_DIRECTORIES):
            if not waiting:
                return False
            file.seek(waiting.pop(0))
            (count,) = struct.unpack(f"{order}H", file.read(2))
            entries = file.read(12 * min(count, _MAX_ENTRIES))
            for tag, _, values, value in struct.iter_unpack(f"{order}HHI4s", entries):
                if tag == _PHOTOMETRIC and struct.unpack(f"{order}H2x", value)[0] in _SENSOR_DATA:
                    return True
                if tag == _SUB_DIRECTORIES:
                    offsets = value
                    if values > 1:
                        file.seek(*struct.unpack(f"{order}I", value))
                        offsets = file.read(4 * min(values, _MAX_DIRECTORIES))
                    waiting += [at for (at,) in struct.iter_unpack(f"{order}I", offsets)]
    except struct.error:
        pass
    return False
