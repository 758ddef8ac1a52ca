"""Decode pictures from strangers safely.

The first bytes decide the format. One outside the allow-list, or more pixels than the limit, is
refused before anything is decoded, so that memory is bounded by the limit and not by the file (a
PNG of 420 kB can hold 144 megapixels). A JPEG above the limit is decoded at a reduced size. What
lies beside good pixels costs nobody the picture: see `stripping`. A picture that is cut short is
read if most of its rows are there.
"""

from __future__ import annotations

import errno
import hashlib
import stat
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import ExifTags, Image, ImageFile
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from hasse.models.errors import pip_install
from hasse.models.images import formats, raw
from hasse.models.images.formats import Format, format_of
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits, too_many_pixels
from hasse.models.images.stripping import Stripped, orientation_of, strip_jpeg, strip_png

_MOST_ROWS = 0.8  # of a picture that is cut short, for it to be read
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF

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
    RuntimeError,  # of libavif and libheif
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

# Converts the one colour that a PNG declares transparent to the depth of Pillow's pixels, by the
# file's pixel layout. Pillow drops the lower of 16 bits.
_TO_8_BITS: Mapping[str, Callable[[Any], Any]] = {
    "L;2": lambda grey: grey * 85,
    "L;4": lambda grey: grey * 17,
    "RGB;16B": lambda colour: tuple(value >> 8 for value in colour),
}

# The operation that undoes each value of EXIF's orientation.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class _Tiff(TiffImageFile):
    """A TIFF whose size was checked by our limit, which may be larger than Pillow's own."""

    def load_prepare(self) -> None:
        if self._im is None:
            self.im = Image.new(self.mode, self._tile_size).im
        super().load_prepare()


_READERS: Mapping[Format, type[ImageFile.ImageFile]] = {
    formats.JPEG: JpegImageFile,
    formats.PNG: PngImageFile,
    formats.WEBP: WebPImageFile,
    formats.GIF: GifImageFile,
    formats.AVIF: AvifImageFile,
    formats.TIFF: _Tiff,
    formats.BMP: BmpImageFile,
    formats.JPEG_2000: Jpeg2KImageFile,
}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A picture whose header is read and checked, and the file without its metadata."""

    picture: ImageFile.ImageFile
    stripped: Stripped

    @property
    def orientation(self) -> int:
        """EXIF's orientation; Pillow undoes that of TIFF itself, and pillow-heif that of HEIC."""
        if isinstance(self.picture, WebPImageFile | AvifImageFile):
            return orientation_of(self.picture.info.get("exif", b""))
        return self.stripped.orientation


def open_picture(
    source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS, at_least: int | None = None
) -> Image.Image:
    """Decode a picture of any format in `formats` to upright RGB; of an animation, its first frame.

    Transparency becomes white; CMYK, 16-bit, grey and palette pictures are converted. A JPEG with
    more pixels than `limits.pixels` comes out smaller by a power of two. So may, with `at_least`,
    any JPEG, which is several times faster; its shortest side still has at least that many
    pixels. Takes at most about 25 bytes of memory for each of `limits.pixels`.

    Raises:
        PictureError: another format, too many pixels, damaged, more than `MAX_SCANS` scans or
            `MAX_METADATA` blocks of metadata, or the format's package is missing.
        OSError: the system has no more open files or memory to give, or cannot reach the disk.
    """
    try:
        with _stream(source) as file:
            found = format_of(file)
            if found is formats.RAW:
                developed = raw.read(source, limits, at_least or 0)
                if isinstance(developed, Image.Image):
                    return developed
                return open_picture(developed, limits, at_least)
            opened = _open(file, found, limits, whole=True)
            orientation = opened.orientation
            picture = _loaded(opened, limits, at_least)
            del opened  # Pillow's WebP reader holds the pixels three times
            turn = _UPRIGHT.get(orientation)
            upright = picture if turn is None else picture.transpose(turn)
            del picture
            return _to_rgb(upright)
    except _READ_ERRORS as error:
        raise_system_error(error)
        raise _damaged(error) from error


def open_file(
    path: Path, limits: PictureLimits = DEFAULT_LIMITS, at_least: int | None = None
) -> Image.Image:
    """Decode the picture in a file as `open_picture` does; what it raises names the file."""
    try:
        return open_picture(path, limits, at_least)
    except PictureError as error:
        raise PictureError(error.reason, f"{path}: {error}") from None


def picture_size(source: Path | bytes, limits: PictureLimits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Return a picture's width and height as displayed, from its header alone.

    An orientation that stands behind the pixels of a PNG is not seen.

    Raises:
        PictureError: as `open_picture`, as far as the header tells.
        OSError: as `open_picture`.
    """
    try:
        with _stream(source) as file:
            found = format_of(file)
            if found is formats.RAW:
                return raw.size(source, limits)
            opened = _open(file, found, limits, whole=False)
            width, height = opened.picture.size
            return (height, width) if opened.orientation >= 5 else (width, height)
    except _READ_ERRORS as error:
        raise_system_error(error)
        raise _damaged(error) from error


def exif_tags(path: Path) -> Mapping[int, Any]:
    """Return the tags of a picture's EXIF directory, without decoding its pixels.

    Raises:
        PictureError: another format, or its package is missing.
        Exception: whatever Pillow raises on damaged metadata.
    """
    with _stream(path) as file:
        found = format_of(file)
        if found is None or found is formats.RAW:
            raise PictureError("not_a_picture", "not a picture whose EXIF is read")
        picture = _reader(found)(file)
        if isinstance(picture, PngImageFile) and "exif" not in picture.info:
            return {}  # looking for it behind the pixels would decode them
        return picture.getexif().get_ifd(ExifTags.IFD.Exif)


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


def _damaged(error: Exception) -> PictureError:
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return PictureError("damaged", f"damaged or cut short ({detail})")


def _open(file: IO[bytes], found: Format | None, limits: PictureLimits, *, whole: bool) -> _Opened:
    """Read and check the header; with `whole`, check also what stands behind the pixels."""
    if found is None:
        empty = not file.read(1)
        raise PictureError(
            "not_a_picture", "the file is empty" if empty else "not a picture that Hasse can read"
        )
    stripped = Stripped(file)
    if found is formats.JPEG:
        stripped = strip_jpeg(file, whole=whole)
    elif found is formats.PNG:
        stripped = strip_png(file, whole=whole)
    stripped.file.seek(0)
    try:
        picture = _reader(found)(stripped.file)
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"more than {limits.pixels:,} pixels") from error
    width, height = picture.size
    most = limits.reducible if found is formats.JPEG else limits.pixels
    if width * height > most:
        raise too_many_pixels(width, height, most)
    if isinstance(picture, TiffImageFile):
        # A tile may be larger than the picture, and is decoded whole.
        tile = [int(picture.tag_v2.get(tag, 0)) for tag in (_TILE_WIDTH, _TILE_LENGTH)]
        if tile[0] * tile[1] > limits.pixels:
            raise too_many_pixels(tile[0], tile[1], limits.pixels)
    return _Opened(picture, stripped)


def _reader(found: Format) -> Callable[[IO[bytes]], ImageFile.ImageFile]:
    if found is not formats.HEIC:
        return _READERS[found]
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise PictureError(
            "missing_package", f"a HEIC picture: {pip_install('heic')} reads these"
        ) from None
    reader: Callable[[IO[bytes]], ImageFile.ImageFile] = HeifImageFile
    return reader


def _loaded(opened: _Opened, limits: PictureLimits, at_least: int | None) -> ImageFile.ImageFile:
    picture, layout = opened.picture, ""
    interlaced = False
    if isinstance(picture, JpegImageFile):
        _draft(picture, opened.stripped, limits, at_least)
    elif isinstance(picture, PngImageFile):
        layout = str(picture.tile[0].args)
        interlaced = bool(picture.info.get("interlace"))
    elif isinstance(picture, GifImageFile):
        interlaced = _is_interlaced(picture)
    ended = opened.stripped.ended
    try:
        picture.load()
    except _READ_ERRORS as error:
        raise_system_error(error)
        by_rows = isinstance(picture, JpegImageFile | PngImageFile | GifImageFile | BmpImageFile)
        if not by_rows or interlaced or picture._im is None:
            raise
        picture.tile = []  # nothing more is decoded
        ended = False
    if not ended:
        _require_most_rows(picture)
    clear = picture.info.get("transparency")
    if clear is not None and layout in _TO_8_BITS:
        picture.info["transparency"] = _TO_8_BITS[layout](clear)
    return picture


def _is_interlaced(picture: GifImageFile) -> bool:
    match picture.tile[0].args:
        case (_, interlace, _):  # bits of a pixel, interlace, transparent entry
            return bool(interlace)
    return False


def _draft(
    picture: JpegImageFile, stripped: Stripped, limits: PictureLimits, at_least: int | None
) -> None:
    """Let a JPEG be decoded at half, a quarter or an eighth of its size."""
    width, height = picture.size
    scale = 1
    while scale < 8 and -(-width // scale) * -(-height // scale) > limits.pixels:
        scale *= 2
    if at_least is not None:
        scale = max(scale, min(width // at_least, height // at_least))
    picture.draft(None, (max(1, width // scale), max(1, height // scale)))
    if picture.width * picture.height > limits.pixels:
        raise too_many_pixels(width, height, limits.pixels)
    # All coefficients of these are held in memory, in 16 bits, whatever the scale.
    coefficients = width * height * len(picture.layer)
    in_one_pass = stripped.interleaved and not picture.info.get("progressive")
    if not in_one_pass and coefficients > 8 * limits.pixels:
        most = 8 * limits.pixels // len(picture.layer)
        raise too_many_pixels(width, height, most)


def _require_most_rows(picture: ImageFile.ImageFile) -> None:
    """Refuse a picture that was cut short, if more than a small part of its rows is missing.

    Missing rows are black or transparent, but those of a JPEG grey; a BMP begins at its bottom.
    """
    width, height = picture.size
    for top, bottom in ((int(height * _MOST_ROWS), height), (0, int(height * (1 - _MOST_ROWS)))):
        rows = np.asarray(picture.crop((0, top, width, max(bottom, top + 1))))
        first = rows[0, 0]
        if (rows == first).all() and np.isin(first, (0, 127, 128)).all():
            raise OSError(f"fewer than {_MOST_ROWS:.0%} of its rows are there")


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
