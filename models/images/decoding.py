"""Decode pictures from strangers safely.

A format outside the allow-list, or more pixels than the limit, is refused before anything is
decoded, so that memory is bounded by the limit and not by the file (a PNG of 420 kB can hold 144
megapixels). So is a file that takes a minute for each megabyte: a JPEG that draws its pixels over
and over, a PNG of a thousand colour profiles, either with a million blocks of metadata. A picture
that is cut short is refused, not shown grey.
"""

from __future__ import annotations

import errno
import hashlib
import re
import stat
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from PIL import Image, ImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from models.errors import HasseError

MAX_PIXELS = 50_000_000
MAX_SCANS = 100  # of a JPEG: programs write about ten, and each goes through all pixels
MAX_PROFILES = 10  # of a PNG, which has one at most; each may inflate to a megabyte
MAX_METADATA = (
    10_000  # blocks beside the pixels of a JPEG or PNG; Pillow takes 10 us and more for each
)

Reason = Literal["not_a_picture", "too_many_pixels", "damaged"]

# Broken metadata (EXIF, animation) spoils no pixel, so it needs no warning.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
# Pillow only warns of a GIF whose first frame is far larger than its screen; we refuse it.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
_BOMBS = (Image.DecompressionBombWarning, Image.DecompressionBombError)

# What Pillow's readers raise on damaged bytes.
_READ_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    struct.error,
    zlib.error,
    UserWarning,  # in a program that turns warnings into errors
)

# Errors of the system, which say nothing about the picture: no more open files or memory, or a
# disk on another machine that is gone. A sector that cannot be read is damage.
_SYSTEM_ERRORS = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN),
    }
)

# A JPEG's markers that are followed by a length: not a stuffed or fill byte, not a restart. The
# content of a marker is skipped, so that a JPEG inside another is not looked at.
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd7])")
_SCAN, _END = b"\xda", b"\xd9"

# Converts the one colour that a PNG declares transparent to the depth of Pillow's pixels, by the
# file's pixel layout. Pillow drops the lower of 16 bits.
_TO_8_BITS: Mapping[str, Callable[[Any], Any]] = {
    "L;2": lambda grey: grey * 85,
    "L;4": lambda grey: grey * 17,
    "RGB;16B": lambda colour: tuple(value >> 8 for value in colour),
}

# EXIF's orientation tag, and the operation that undoes each of its values.
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(HasseError):
    """A picture that cannot be decoded; `reason` is for programs, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def open_picture(
    source: Path | bytes, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> Image.Image:
    """Decode a JPEG, PNG, WebP or GIF (its first frame) to upright RGB.

    Transparency becomes white; CMYK, 16-bit, grey and palette pictures are converted. With
    `at_least`, a JPEG may come out smaller by a power of two, which is several times faster; its
    shortest side still has at least that many pixels. Takes at most about 17 bytes of memory for
    each of `max_pixels`.

    Raises:
        PictureError: not one of the four formats, too many pixels, damaged, or more than
            `MAX_SCANS` scans, `MAX_PROFILES` profiles or `MAX_METADATA` blocks of metadata.
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
    """
    try:
        with _stream(source) as file:
            picture = _read_header(file, max_pixels, whole=True)
            if at_least is not None and isinstance(picture, JpegImageFile):
                picture.draft(None, (at_least, at_least))
            layout = str(picture.tile[0].args) if isinstance(picture, PngImageFile) else ""
            picture.load()
            clear = picture.info.get("transparency")
            if clear is not None and layout in _TO_8_BITS:
                picture.info["transparency"] = _TO_8_BITS[layout](clear)
            upright = _upright(picture)
            del picture  # Pillow's WebP reader holds the pixels three times
            return _to_rgb(upright)
    except _READ_ERRORS as error:
        raise_system_error(error)
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PictureError("damaged", f"damaged or cut short ({detail})") from error


def picture_size(source: Path | bytes, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return a picture's width and height as displayed, from its header alone.

    An orientation that stands behind the pixels of a PNG is not seen.

    Raises:
        PictureError: as `open_picture`, as far as the header tells.
        OSError: as `open_picture`.
    """
    try:
        with _stream(source) as file:
            picture = _read_header(file, max_pixels, whole=False)
            width, height = picture.size
            # A PNG's EXIF may come after its pixels: looking for it there would decode them.
            has_exif = not isinstance(picture, PngImageFile) or "exif" in picture.info
            sideways = has_exif and _orientation(picture) >= 5
            return (height, width) if sideways else (width, height)
    except _READ_ERRORS as error:
        raise_system_error(error)
        raise PictureError("damaged", f"damaged or cut short ({error})") from error


def raise_system_error(error: Exception) -> None:
    """Raise an error of reading a picture again if it is the system's, not the picture's."""
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        raise error


def picture_stamp(path: Path) -> int:
    """Return a hash of a file's size and time of change (63 bits), or 0 without such a file.

    Only whole seconds count, since archives keep no more.
    """
    try:
        found = path.stat()
    except OSError:
        return 0
    digest = hashlib.sha256(f"{found.st_size} {int(found.st_mtime)}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _stream(source: Path | bytes) -> IO[bytes]:
    if isinstance(source, bytes):
        return BytesIO(source)
    try:
        # A pipe or a device would block or never end.
        if not stat.S_ISREG(source.stat().st_mode):
            raise PictureError("not_a_picture", "not a file")
        return source.open("rb")
    except FileNotFoundError as error:
        raise PictureError("not_a_picture", "file not found") from error
    except PermissionError as error:
        raise PictureError("not_a_picture", "no permission to read the file") from error


def _read_header(file: IO[bytes], max_pixels: int, *, whole: bool) -> ImageFile.ImageFile:
    """Read and check the header; with `whole`, check also what stands behind the pixels."""
    start = file.read(16)
    file.seek(0)
    reader = _reader(start)
    if reader is JpegImageFile:
        _check_jpeg(file, _END if whole else _SCAN)
    elif reader is PngImageFile:
        _check_png(file, b"IEND" if whole else b"IDAT")
    file.seek(0)
    try:
        picture = reader(file)
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"more than {max_pixels:,} pixels") from error
    width, height = picture.size
    if width * height > max_pixels:
        raise PictureError(
            "too_many_pixels",
            f"{width:,} x {height:,} pixels are more than the limit of {max_pixels:,}",
        )
    return picture


def _reader(start: bytes) -> type[ImageFile.ImageFile]:
    if start.startswith(b"\xff\xd8\xff"):
        return JpegImageFile
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WebPImageFile
    if start.startswith((b"GIF87a", b"GIF89a")):
        return GifImageFile
    found = "the file is empty" if not start else "not a JPEG, PNG, WebP or GIF picture"
    raise PictureError("not_a_picture", found)


def _check_png(file: IO[bytes], last: bytes) -> None:
    """Refuse a PNG with too many chunks beside its pixels, before the first chunk of a kind."""
    blocks, profiles, at = 0, 0, 8
    while blocks <= MAX_METADATA and profiles <= MAX_PROFILES:
        file.seek(at)
        head = file.read(8)
        kind = head[4:]
        if len(head) < 8 or kind == last:
            return
        blocks += kind != b"IDAT"
        profiles += kind == b"iCCP"
        at += 12 + int.from_bytes(head[:4], "big")  # length, kind, content, checksum
    raise _too_much(blocks, f"{MAX_PROFILES} colour profiles")


def _check_jpeg(file: IO[bytes], last: bytes) -> None:
    """Refuse a JPEG that would take hours to decode, before the first marker of a kind.

    A scan of all pixels can be as short as 75 bytes.
    """
    blocks, scans, at = 0, 0, 2
    while blocks <= MAX_METADATA and scans <= MAX_SCANS:
        file.seek(at)
        size = 65_536 if scans else 4096  # metadata is short, and scans are long
        part = file.read(size)
        marker = _MARKER.search(part)
        if marker is None:
            if len(part) < size:
                return
            at += len(part) - 1  # a marker may begin with the last byte
            continue
        if marker[1] in {last, _END}:
            return
        file.seek(at + marker.end())
        at += marker.end() + max(2, int.from_bytes(file.read(2), "big"))
        blocks += marker[1] != _SCAN
        scans += marker[1] == _SCAN
    raise _too_much(blocks, f"{MAX_SCANS} scans")


def _too_much(blocks: int, other: str) -> PictureError:
    what = f"{MAX_METADATA:,} blocks of metadata" if blocks > MAX_METADATA else other
    return PictureError("damaged", f"it has more than {what}")


def _orientation(picture: Image.Image) -> int:
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except (*_READ_ERRORS, ZeroDivisionError):
        # Broken metadata does not spoil the pixels.
        return 1
    return value if isinstance(value, int) else 1


def _upright(picture: Image.Image) -> Image.Image:
    turn = _UPRIGHT.get(_orientation(picture))
    return picture if turn is None else picture.transpose(turn)


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        # Pillow would clip 16 bits at 255: nearly all white.
        values = np.asarray(picture)
        levels = (values >> 8).astype(np.uint8)
        clear = picture.info.get("transparency")
        if clear is not None:
            levels[values == clear] = 255
        return Image.fromarray(levels).convert("RGB")
    if picture.mode in {"LA", "RGBA"} or "transparency" in picture.info:
        layered = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        page = Image.new("RGB", picture.size, "white")
        page.paste(layered, mask=layered.getchannel("A"))
        return page
    return picture if picture.mode == "RGB" else picture.convert("RGB")
