"""When a picture was taken, as its camera wrote it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from PIL import ExifTags

from hasse.models.images.decoding import exif_tags

_DATES = (
    (ExifTags.Base.DateTimeOriginal, ExifTags.Base.OffsetTimeOriginal),
    (ExifTags.Base.DateTimeDigitized, ExifTags.Base.OffsetTimeDigitized),
)
_ZONE = re.compile(r"([+-])(\d\d):(\d\d)")


def taken_at(path: Path) -> int | None:
    """Return the date in a picture's EXIF, or else that of its file; None if it cannot be read.

    In milliseconds since 1970. A date without a time zone, as most cameras write it, is read as
    UTC.
    """
    try:
        exif = exif_tags(path)
        for date, offset in _DATES:
            if (found := _milliseconds(exif.get(date), exif.get(offset))) is not None:
                return found
    # Pillow raises anything on damaged metadata, which is not needed to use a picture.
    except Exception:  # noqa: S110
        pass
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _milliseconds(date: object, offset: object) -> int | None:
    if not isinstance(date, str):
        return None
    try:
        moment = datetime.strptime(date.strip("\0 ")[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:  # cameras without a clock write zeros
        return None
    zone = _ZONE.fullmatch(offset.strip("\0 ")) if isinstance(offset, str) else None
    shift = timedelta(0)
    if zone is not None:
        shift = timedelta(hours=int(zone[2]), minutes=int(zone[3])) * (-1 if zone[1] == "-" else 1)
    if abs(shift) >= timedelta(days=1):
        shift = timedelta(0)
    moment = moment.replace(tzinfo=timezone(shift) if shift else UTC)
    return round(moment.timestamp() * 1000)
