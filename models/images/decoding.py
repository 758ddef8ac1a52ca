"""Decodes pictures of strangers safely: within limits, and in processes that can be killed."""

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

from hasse.models.images.codecs import Decoded
from hasse.models.images.decoder import DECODERS, Answer, Cancellation, memory_file
from hasse.models.images.formats import FORMATS
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.images.metadata import PictureMetadata, read_sidecars
from hasse.models.regular_file import NotRegularFile, open_regular, raise_system_error

_FORMATS = {each.name: each for each in FORMATS}


def open_picture(
    source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS, at_least: int | None = None
) -> Image.Image:
    """Decode a picture of any format in `formats` to upright RGB in the colours of sRGB.

    An animation gives its first frame. Transparency becomes white; CMYK, 16-bit, grey and palette
    pictures are converted. A JPEG with more pixels than `limits.pixels` comes out smaller by a
    power of two. So may, with `at_least`, any picture, which is faster; its shortest side still has
    at least that many pixels. The process that decodes takes at most about 25 bytes of memory for
    each of `limits.pixels`, and this one 7.

    Raises:
        PictureError: another format, too many pixels, damaged, more processor time than
            `limits.seconds`, or the format's package is missing.
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
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
) -> Decoded:
    """Decode a picture as `open_picture` does, and return its size and format too.

    Raises:
        PictureError, OSError: as `open_picture`.
        DecodingCancelled: `cancellation` was cancelled in another thread.
    """
    request = {"job": "pixels", "at_least": at_least}
    head, image = _ask(source, request, limits, cancellation)
    width, height = head["size"]
    return Decoded(cast(Image.Image, image), (width, height), _FORMATS[head["format"]])


def picture_size(source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Return a picture's width and height as displayed, from its header alone.

    Raises:
        PictureError: as `open_picture`, as far as the header shows it.
        OSError: as `open_picture`.
    """
    width, height = _ask(source, {"job": "size"}, limits, None)[0]["size"]
    return width, height


def taken_at(source: Path | bytes) -> int | None:
    """Return the date in a picture's metadata, as `dates.date_in`, or else that of its file.

    The date of a file is shown by the clock of this machine. None without either.

    Raises:
        OSError: as `open_picture`.
    """
    with suppress(PictureError):
        date: int | None = _ask(source, {"job": "date"}, DEFAULT_LIMITS, None)[0]["date"]
        if date is not None:
            return date
    if isinstance(source, bytes):
        return None
    try:
        seconds, nanoseconds = divmod(source.stat().st_mtime_ns, 10**9)
        return 1000 * timegm(time.localtime(seconds)) + nanoseconds // 10**6
    except (OSError, OverflowError, ValueError):
        return None


def read_metadata(source: Path | bytes, sidecars: Iterable[Path] = ()) -> PictureMetadata:
    """Read the metadata of a picture and its sidecars, in the order of their word.

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

    Only whole seconds count, since archives keep no more.
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
) -> Answer:
    with _opened(source) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limits.file_bytes:
            raise PictureError(
                "too_many_pixels",
                f"{size:,} bytes are more than the limit of {limits.file_bytes:,}",
            )
        return DECODERS.ask(request, file, limits, cancellation)


def _opened(source: Path | bytes) -> IO[bytes]:
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
