"""A RAW picture (DNG) as a camera writes it: sensor data, with or without a JPEG preview."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from PIL import Image

from tests.models.images.pictures import encode

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 10: 8}


def _numbers(kind: int, *values: int) -> tuple[int, int, bytes]:
    code = {1: "B", 3: "H", 4: "I"}[kind]
    return kind, len(values), struct.pack(f"<{len(values)}{code}", *values)


def _text(text: bytes) -> tuple[int, int, bytes]:
    return 2, len(text) + 1, text + b"\0"


def _fractions(kind: int, *values: int) -> tuple[int, int, bytes]:
    pairs = [part for value in values for part in (value, 10_000)]
    return kind, len(values), struct.pack(f"<{len(pairs)}{'I' if kind == 5 else 'i'}", *pairs)


def _directory(at: int, tags: Mapping[int, tuple[int, int, bytes]]) -> bytes:
    """Return a directory of a TIFF that stands at a place, and behind it what it points to."""
    entries, behind = b"", b""
    start = at + 2 + 12 * len(tags) + 4
    for tag, (kind, count, value) in sorted(tags.items()):
        stored = value.ljust(4, b"\0")
        if len(value) > 4:
            stored = struct.pack("<I", start + len(behind))
            behind += value + bytes(len(value) % 2)
        entries += struct.pack("<HHI", tag, kind, count) + stored
    return struct.pack("<H", len(tags)) + entries + bytes(4) + behind


def dng(
    colour: tuple[int, int, int] = (12_000, 30_000, 6_000),
    size: tuple[int, int] = (64, 48),
    orientation: int = 1,
    preview: Image.Image | None = None,
) -> bytes:
    """Return a DNG whose sensor saw one colour (16 bits)."""
    width, height = size
    data = np.full((height, width), colour[1], "<u2")
    data[::2, ::2], data[1::2, 1::2] = colour[0], colour[2]
    sensor = {
        254: _numbers(4, 0),
        256: _numbers(4, width),
        257: _numbers(4, height),
        258: _numbers(3, 16),
        259: _numbers(3, 1),
        262: _numbers(3, 32803),
        273: _numbers(4, 8),
        277: _numbers(3, 1),
        278: _numbers(4, height),
        279: _numbers(4, data.nbytes),
        33421: _numbers(3, 2, 2),
        33422: _numbers(1, 0, 1, 1, 2),
        50717: _numbers(4, 65_535),
    }
    camera = {
        271: _text(b"Hasse"),
        272: _text(b"Test"),
        274: _numbers(3, orientation),
        50706: _numbers(1, 1, 4, 0, 0),
        50708: _text(b"Hasse Test"),
        50721: _fractions(10, 10_000, 0, 0, 0, 10_000, 0, 0, 0, 10_000),
        50728: _fractions(5, 10_000, 10_000, 10_000),
        50778: _numbers(3, 21),
    }
    body = data.tobytes()
    if preview is None:
        at = 8 + len(body)
        return b"II*\0" + struct.pack("<I", at) + body + _directory(at, sensor | camera)
    jpeg = encode(preview, "JPEG")
    at = 8 + len(body)
    below = _directory(at, sensor)
    place = at + len(below)
    first = place + len(jpeg) + len(jpeg) % 2
    shown = camera | {
        254: _numbers(4, 1),
        256: _numbers(4, preview.width),
        257: _numbers(4, preview.height),
        258: _numbers(3, 8, 8, 8),
        259: _numbers(3, 7),
        262: _numbers(3, 6),
        273: _numbers(4, place),
        277: _numbers(3, 3),
        278: _numbers(4, preview.height),
        279: _numbers(4, len(jpeg)),
        330: _numbers(4, at),
    }
    head = b"II*\0" + struct.pack("<I", first) + body + below + jpeg + bytes(len(jpeg) % 2)
    return head + _directory(first, shown)
