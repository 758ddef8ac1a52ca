"""Small pictures, and what is asked of them, for the tests of decoding."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureError


def encode(picture: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def noise(width: int = 48, height: int = 32) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def flat(colour: tuple[int, ...], mode: str = "RGB", size: tuple[int, int] = (8, 6)) -> Image.Image:
    return Image.new(mode, size, colour)


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a part of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG of that size whose pixels are missing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")


def scanned(times: int, size: tuple[int, int] = (16, 16)) -> bytes:
    """Return a progressive JPEG of so many scans, most of which add nothing."""
    data = encode(Image.new("L", size, 128), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * (times - data.count(b"\xff\xda")) + data[-2:]


def refusal(source: bytes | Path, **options: Any) -> PictureError:
    with pytest.raises(PictureError) as caught:
        open_picture(source, **options)
    return caught.value


def close(picture: Image.Image, colour: tuple[int, int, int], tolerance: int = 6) -> bool:
    gap = np.abs(np.asarray(picture).astype(int) - np.array(colour))
    return picture.mode == "RGB" and bool((gap <= tolerance).all())
