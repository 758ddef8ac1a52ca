"""Read a JPEG or PNG without what lies beside its pixels.

Text, colour profiles, times and EXIF of strangers' pictures are broken or huge now and then. No
pixel depends on them, so the decoder never sees them; only EXIF's orientation is read here.
"""

from __future__ import annotations

import io
import re
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO

from hasse.models.images.limits import MAX_METADATA, MAX_SCANS, PictureError

# A JPEG's markers that are followed by a length: not a stuffed or fill byte, not a restart. The
# content of a marker is skipped, so that a JPEG inside another is not looked at.
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd7])")
_SCAN, _END = b"\xda", b"\xd9"
_EXIF = b"\xe1"
# Application data and comments, but for JFIF (E0) and Adobe (EE), which tell how colours are coded.
_BESIDE = {*(bytes([code]) for code in range(0xE1, 0xEE)), b"\xef", b"\xfe"}
_FRAMES = {bytes([code]) for code in range(0xC0, 0xD0)} - {b"\xc4", b"\xc8", b"\xcc"}
_NEEDED = {b"IHDR", b"PLTE", b"IDAT", b"tRNS", b"IEND"}  # of a PNG

_ORIENTATION = 0x0112
_NUMBERS = {3: "H2x", 4: "I"}  # EXIF's types SHORT and LONG
_MOST_EXIF = 1_000_000


@dataclass(frozen=True, slots=True)
class Stripped:
    """A picture's file without its metadata.

    Attributes:
        file: what the decoder reads.
        orientation: that of EXIF; 1 is upright.
        ended: whether the end marker was found, or not looked for.
        interleaved: whether the first scan of a JPEG has all its colours. One that has not, as
            well as a progressive one, is held in memory whole before it is decoded.
    """

    file: IO[bytes]
    orientation: int = 1
    ended: bool = True
    interleaved: bool = True


def strip_png(file: IO[bytes], *, whole: bool) -> Stripped:
    """Leave out the chunks of a PNG that its pixels do not need.

    Without `whole`, chunks behind the first pixels are not looked at.

    Raises:
        PictureError: it has more than `MAX_METADATA` such chunks.
    """
    kept, orientation, blocks, at = [(0, 8)], 1, 0, 8
    while True:
        file.seek(at)
        head = file.read(8)
        size, kind = int.from_bytes(head[:4], "big"), head[4:]
        stop = at + 12 + size  # length, kind, content, checksum
        if kind == b"eXIf":
            orientation = orientation_of(file.read(min(size, _MOST_EXIF)))
        if len(head) < 8 or kind == b"IEND" or (kind == b"IDAT" and not whole):
            kept.append((at, _size_of(file)))
            return Stripped(_pieces(file, kept), orientation)
        if kind in _NEEDED or not kind[0] & 0x20:  # an unknown chunk may be critical
            kept.append((at, stop))
        blocks += kind != b"IDAT"
        if blocks > MAX_METADATA:
            raise _too_much(blocks)
        at = stop


def strip_jpeg(file: IO[bytes], *, whole: bool) -> Stripped:
    """Leave out the segments of a JPEG that its pixels do not need; add an end where it has none.

    Without `whole`, nothing behind the first scan's marker is looked at.

    Raises:
        PictureError: it has more than `MAX_METADATA` segments or `MAX_SCANS` scans, which would
            take hours to decode: a scan of all pixels can be as short as 75 bytes.
    """
    kept: list[tuple[int, int]] = []
    orientation, begin, blocks, scans, at, interleaved = 0, 0, 0, 0, 2, True
    components = b""
    while blocks <= MAX_METADATA and scans <= MAX_SCANS:
        found = _next_marker(file, at, 65_536 if scans else 4096)  # scans are long
        if found is None or found[1] == _END or (found[1] == _SCAN and not whole):
            size = _size_of(file)
            ended = found is not None
            kept.append((begin, size))
            tail = b"" if ended else b"\xff\xd9"
            return Stripped(_pieces(file, kept, tail), orientation or 1, ended, interleaved)
        start, marker = found
        if start > at and not scans:  # rubbish between segments
            kept.append((begin, at))
            begin = start
        file.seek(start + 2)
        length = max(2, int.from_bytes(file.read(2), "big"))
        at = start + 2 + length
        if marker in _BESIDE:
            if marker == _EXIF and not orientation:
                content = file.read(length - 2)
                if content.startswith(b"Exif\0\0"):
                    orientation = orientation_of(content)
            kept.append((begin, start))
            begin = at
        elif marker == _SCAN:
            if scans == 0:
                interleaved = file.read(1) == components
        elif marker in _FRAMES:
            components = file.read(6)[5:]  # after precision, height and width
        blocks += marker != _SCAN
        scans += marker == _SCAN
    raise _too_much(blocks)


def orientation_of(exif: bytes) -> int:
    """Return the orientation in a block of EXIF; 1 where there is none that makes sense."""
    content = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(content[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", content, 4)
        (count,) = struct.unpack_from(f"{order}H", content, start)
        entries = content[start + 2 : start + 2 + 12 * count]
        for tag, kind, many, value in struct.iter_unpack(f"{order}HHI4s", entries):
            if tag == _ORIENTATION and kind in _NUMBERS and many == 1:
                return int(struct.unpack(order + _NUMBERS[kind], value)[0])
    except struct.error:  # cut short
        pass
    return 1


def _next_marker(file: IO[bytes], at: int, size: int) -> tuple[int, bytes] | None:
    """Return the place and code of the next marker of a JPEG that has a length."""
    while True:
        file.seek(at)
        part = file.read(size)
        marker = _MARKER.search(part)
        if marker is not None:
            return at + marker.start(), marker[1]
        if len(part) < size:
            return None
        at += len(part) - 1  # a marker may begin with the last byte


def _too_much(blocks: int) -> PictureError:
    what = f"{MAX_METADATA:,} blocks of metadata" if blocks > MAX_METADATA else f"{MAX_SCANS} scans"
    return PictureError("damaged", f"it has more than {what}")


def _size_of(file: IO[bytes]) -> int:
    return file.seek(0, io.SEEK_END)


def _pieces(file: IO[bytes], ranges: Sequence[tuple[int, int]], tail: bytes = b"") -> IO[bytes]:
    return io.BufferedReader(_Pieces(file, ranges, tail), 65_536)


class _Pieces(io.RawIOBase):
    """Some ranges of a file, one behind the other, and bytes at their end."""

    def __init__(self, file: IO[bytes], ranges: Sequence[tuple[int, int]], tail: bytes) -> None:
        self._file = file
        self._tail = tail
        size = _size_of(file)
        self._ranges = [(a, min(b, size)) for a, b in ranges if a < min(b, size)]
        self._begins = [0, *accumulate(b - a for a, b in self._ranges)]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._begins[-1] + len(self._tail)
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, size))
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        within = bisect_right(self._begins, self._at) - 1
        if within == len(self._ranges):
            begin = self._at - self._begins[-1]
            data = self._tail[begin : begin + len(view)]
        else:
            skipped = self._at - self._begins[within]
            start, stop = self._ranges[within]
            self._file.seek(start + skipped)
            data = self._file.read(min(len(view), stop - start - skipped))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
