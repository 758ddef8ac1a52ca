"""Dates in the metadata of pictures."""

from __future__ import annotations

import re
import struct
from calendar import timegm
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO

from PIL import ExifTags, Image

from hasse.models.images.codecs import header_of
from hasse.models.regular_file import raise_system_error

# The first tag with a date decides. DateTime is when the file was last saved.
_TAGS = (
    ExifTags.Base.DateTimeOriginal,
    ExifTags.Base.DateTimeDigitized,
    ExifTags.Base.DateTime,
)
_DATE = re.compile(
    r"\s*(\d{4})[-:/. ](\d{1,2})[-:/. ](\d{1,2})"
    r"(?:[T\s]+(\d{1,2})[:.-](\d{1,2})(?:[:.-](\d{1,2}))?)?(?!\d)"
)
# Dates of XMP, as attributes or elements, the best first.
_XMP_NAMES = ("exif:DateTimeOriginal", "photoshop:DateCreated", "xmp:CreateDate")
_XMP = {name: re.compile(rf"{name}\s*(?:=\s*[\"']|>)\s*([^\"'<]+)") for name in _XMP_NAMES}
_XMP_BEGIN, _XMP_END = b"<x:xmpmeta", b"</x:xmpmeta>"
_HEAD = 1 << 18  # bytes of a file that are searched for XMP
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_CHUNK = 1 << 18  # bytes of a chunk with metadata
_PNG_TEXTS = (b"Creation Time", b"Exif.Photo.DateTimeOriginal", b"date:create")


def date_in(file: IO[bytes]) -> int | None:
    """Return when a picture was taken, by its metadata, or None.

    The date is the local time at the place of the picture, without its zone, in milliseconds since
    1970 of that clock. So the day of a picture is the photographer's day.

    Raises:
        OSError: see `raise_system_error`.
    """
    readers: tuple[Callable[[IO[bytes]], Iterator[object]], ...]
    readers = (_exif_dates, _png_dates, _xmp_dates)
    for dates in readers:
        try:
            file.seek(0)
            for date in dates(file):
                if (instant := _milliseconds(date)) is not None:
                    return instant
        # Pillow may raise any error on damaged metadata. The picture is usable without it.
        except Exception as error:
            raise_system_error(error)
    return None


def _exif_dates(file: IO[bytes]) -> Iterator[object]:
    """Return the dates in EXIF, without decoding pixels."""
    header = header_of(file)
    return iter(()) if header is None else _dates_of(header[1])


def _dates_of(exif: Image.Exif) -> Iterator[object]:
    tags = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
    return iter([tags.get(tag) for tag in _TAGS])


def _png_dates(file: IO[bytes]) -> Iterator[object]:
    """Yield the dates in a PNG, also after its pixels."""
    if file.read(8) != _PNG:
        return
    for kind, content in _chunks(file):
        if kind == b"eXIf":
            exif = Image.Exif()
            exif.load(b"Exif\0\0" + content)
            yield from _dates_of(exif)
        elif kind in (b"tEXt", b"iTXt"):
            key, _, text = content.partition(b"\0")
            if key in _PNG_TEXTS:
                yield text.strip(b"\0").decode("utf-8", "replace")


def _chunks(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and the content of each PNG chunk that may contain a date."""
    while len(head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        if kind in (b"eXIf", b"tEXt", b"iTXt") and size <= _MAX_CHUNK:
            yield kind, file.read(size)
            file.seek(4, 1)
        else:
            file.seek(size + 4, 1)


def _xmp_dates(file: IO[bytes]) -> Iterator[object]:
    head = file.read(_HEAD)
    begin = head.find(_XMP_BEGIN)
    if begin < 0:
        return
    end = head.find(_XMP_END, begin)
    text = head[begin : end if end > 0 else None].decode("utf-8", "replace")
    for pattern in _XMP.values():
        if (match := pattern.search(text)) is not None:
            yield match[1]


def _milliseconds(date: object) -> int | None:
    """Parse a date of cameras and programs; None for none, or for a date of zeros."""
    match = _DATE.match(date.strip("\0 ")) if isinstance(date, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    return 1000 * timegm(moment.timetuple())
