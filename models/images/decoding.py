"""Decodes untrusted pictures safely: within limits, and in processes that can be killed."""

from __future__ import annotations

import hashlib
import os
import time
from calendar import timegm
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from PIL import Image

from hasse.models.images.codecs import DecodedPicture
from hasse.models.images.decoder import DECODERS, Cancellation, Reply, memory_file
from hasse.models.images.formats import FORMATS
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.images.metadata import PictureMetadata, read_sidecars
from hasse.models.regular_file import NotRegularFile, open_regular, raise_system_error

_FORMATS = {known.name: known for known in FORMATS}


def open_picture(
    source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS, at_least: int | None = None
) -> Image.Image:
    """Decode a picture of any format in `formats` to upright RGB in the colours of sRGB.

    Decodes the first frame of an animation. Transparency becomes white; CMYK, 16-bit, grey and
    palette pictures are converted. A JPEG with more pixels than `limits.pixels` is reduced by a
    power of two. With `at_least`, any picture may be reduced, which is faster; its shortest side
    keeps at least that many pixels. The decoding process takes at most about 25 bytes of memory
    for each of `limits.pixels`, and this process 7.

    Raises:
        PictureError: another format, too many pixels, damaged, more processor time than
            `limits.seconds`, or the format's package is missing.
        OSError: the system is out of file descriptors or memory, or cannot reach the disk.
    """
    return decode(source, limits, at_least).image


def open_file(
    path: Path, limits: PictureLimits = DEFAULT_LIMITS, at_least: int | None = None
) -> Image.Image:
    """Decode the picture in a file as `open_picture` does; its errors name the file."""
    try:
        return open_picture(path, limits, at_least)
    except PictureError as error:
        raise PictureError(error.reason, f"{path}: {error}") from None


def decode(
    source: Path | bytes,
    limits: PictureLimits = DEFAULT_LIMITS,
    at_least: int | None = None,
    cancellation: Cancellation | None = None,
) -> DecodedPicture:
    """Decode a picture as `open_picture` does, and return its size and format too.

    Raises:
        PictureError, OSError: as `open_picture`.
        DecodingCancelled: another thread cancelled `cancellation`.
    """
    request = {"job": "pixels", "at_least": at_least}
    head, image = _ask(source, request, limits, cancellation)
    width, height = head["size"]
    return DecodedPicture(cast(Image.Image, image), (width, height), _FORMATS[head["format"]])


def picture_size(source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Return a picture's width and height as displayed, from its header alone.

    Raises:
        PictureError: as `open_picture`, for errors that the header shows.
        OSError: as `open_picture`.
    """
    width, height = _ask(source, {"job": "size"}, limits, None)[0]["size"]
    return width, height


def date_taken(source: Path | bytes) -> int | None:
    """Return the date in a picture's metadata, as `dates.date_in`, else that of its file, or None.

    The date of a file is in the local time of this machine. Its milliseconds are never 0, unlike
    those of metadata, so that it can be told apart.

    Raises:
        OSError: as `open_picture`.
    """
    date = date_in_picture(source)
    if date is not None:
        return date
    if isinstance(source, bytes):
        return None
    try:
        seconds, nanoseconds = divmod(source.stat().st_mtime_ns, 10**9)
        return 1000 * timegm(time.localtime(seconds)) + max(1, nanoseconds // 10**6)
    except (OSError, OverflowError, ValueError):
        return None


def date_in_picture(source: Path | bytes) -> int | None:
    """Return the date in a picture's metadata, or None; raises as `date_taken`."""
    with suppress(PictureError):
        date: int | None = _ask(source, {"job": "date"}, DEFAULT_LIMITS, None)[0]["date"]
        return date
    return None


def read_metadata(source: Path | bytes, sidecars: Iterable[Path] = ()) -> PictureMetadata:
    """Read the metadata of a picture's sidecars and of its file, in order of priority.

    Raises:
        OSError: as `open_picture`.
    """
    metadata = read_sidecars(sidecars)
    with suppress(PictureError):
        request = {"job": "metadata"}
        metadata.add(PictureMetadata(**_ask(source, request, DEFAULT_LIMITS, None)[0]["metadata"]))
    return metadata


def picture_stamp(path: Path) -> int:
    """Return a hash of a file's size and time of change (63 bits), or 0 without such a file.

    Only whole seconds count, because archives store no fractions.
    """
    try:
        status = path.stat()
    except OSError:
        return 0
    digest = hashlib.sha256(f"{status.st_size} {int(status.st_mtime)}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _ask(
    source: Path | bytes,
    request: dict[str, Any],
    limits: PictureLimits,
    cancellation: Cancellation | None,
) -> Reply:
    with _open_source(source) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limits.file_bytes:
            raise PictureError(
                "too_many_pixels",
                f"{size:,} bytes are more than the limit of {limits.file_bytes:,}",
            )
        return DECODERS.ask(request, file, limits, cancellation)


def _open_source(source: Path | bytes) -> IO[bytes]:
    if isinstance(source, bytes):
        file = memory_file()
        file.write(source)
        file.flush()
        return file
    try:
        return open_regular(source)
    except NotRegularFile as error:
        raise PictureError("not_a_picture", "not a file") from error
    except FileNotFoundError as error:
        raise PictureError("not_a_picture", "file not found") from error
    except PermissionError as error:
        raise PictureError("not_a_picture", "no permission to read the file") from error
    except OSError as error:
        raise_system_error(error)
        raise PictureError("damaged", f"cannot be read ({error.strerror})") from error
