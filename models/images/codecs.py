"""Reads pictures of strangers with Pillow, and its extras for HEIC and RAW.

The first bytes decide the format. Pictures outside the allow-list, or with more pixels than the
limit, are refused before their pixels are decoded. A JPEG above the limit is decoded at a reduced
size. Damaged metadata is ignored, and a picture that is cut short is read if most of its rows are
there. `decoder` runs this in processes that can be killed: Pillow's settings are changed here, and
some of its readers hold Python's interpreter lock.
"""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, cast

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
from hasse.models.images.colour import to_srgb
from hasse.models.images.formats import Format, format_of
from hasse.models.images.limits import PictureError, PictureLimits, too_many_pixels
from hasse.models.regular_file import raise_system_error

_PIECE = 1 << 20  # bytes of a file that are read at a time
_MOST_ROWS = 0.8  # of a picture that is cut short, for it to be read
_BESIDE_PNG = {b"tRNS", b"iCCP", b"eXIf"}  # blocks beside the pixels of a PNG that are read
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF

# Broken metadata (EXIF, animation) spoils no pixel, so it needs no warning.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
# Pillow only warns of frames and tiles up to twice its limit, which is set to ours.
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
_READERS: Mapping[Format, type[ImageFile.ImageFile]] = {
    formats.JPEG: JpegImageFile,
    formats.PNG: PngImageFile,
    formats.WEBP: WebPImageFile,
    formats.GIF: GifImageFile,
    formats.AVIF: AvifImageFile,
    formats.TIFF: TiffImageFile,
    formats.BMP: BmpImageFile,
    formats.JPEG_2000: Jpeg2KImageFile,
}


@dataclass(frozen=True, slots=True)
class Decoded:
    """An upright RGB picture, and its format and size before any reduction."""

    image: Image.Image
    size: tuple[int, int]
    format: Format


def decode(file: IO[bytes], limits: PictureLimits, at_least: int | None = None) -> Decoded:
    """Decode a picture as `decoding.open_picture` does; raises the same errors."""
    with _read_errors():
        stored_format = _format_of(file)
        if stored_format is formats.RAW:
            size = raw.size(file, limits)
            developed = raw.read(file, limits, at_least)
            if isinstance(developed, bytes):
                developed = decode(BytesIO(developed), limits, at_least).image
            return Decoded(developed, size, stored_format)
        picture = _opened(file, stored_format, limits)
        size, whole, covered = picture.size, True, None
        if isinstance(picture, JpegImageFile):
            whole = _draft(picture, limits, at_least)
        elif isinstance(picture, GifImageFile):
            covered = picture.tile[0].extents
        loaded = _loaded(picture, whole=whole)
        orientation = _orientation(picture)
        if isinstance(picture, BmpImageFile) and not _has_alpha(loaded):
            loaded = loaded.convert("RGB")
        del picture  # Pillow's WebP reader holds the pixels three times
        turn = _UPRIGHT.get(orientation)
        if turn is not None:
            loaded = loaded.transpose(turn)
        image = to_srgb(loaded)
        if covered is not None and covered != (0, 0, *size):
            frame, image = image.crop(covered), Image.new("RGB", image.size, "white")
            image.paste(frame, covered)
        if at_least is not None and stored_format is not formats.JPEG:  # `_draft` reduced it
            image = image.reduce(2 ** _halvings(min(image.size), at_least))
        return Decoded(image, _displayed(size, orientation), stored_format)


def size_of(file: IO[bytes], limits: PictureLimits) -> tuple[int, int]:
    """Return a picture's size as `decoding.picture_size` does; raises the same errors."""
    with _read_errors():
        stored_format = _format_of(file)
        if stored_format is formats.RAW:
            return raw.size(file, limits)
        picture = _opened(file, stored_format, limits)
        return _displayed(picture.size, _orientation(picture))


def header_of(file: IO[bytes]) -> tuple[ImageFile.ImageFile, Image.Exif] | None:
    """Open a picture for its metadata, without decoding pixels; None where Pillow reads none.

    Raises:
        Exception: Pillow raises anything on damaged metadata.
    """
    file.seek(0)
    stored_format = format_of(file)
    if stored_format is None or stored_format is formats.RAW:
        return None
    picture = _reader_of(stored_format)(file)
    # Looking for EXIF behind the pixels of a PNG would decode them.
    hidden = isinstance(picture, PngImageFile) and "exif" not in picture.info
    return picture, Image.Exif() if hidden else picture.getexif()


def _reader_of(stored_format: Format) -> Callable[[IO[bytes]], ImageFile.ImageFile]:
    """Return Pillow's reader of a format; raises PictureError if its package is missing."""
    if stored_format is not formats.HEIC:
        return _READERS[stored_format]
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise PictureError(
            "missing_package", f"a HEIC picture: {pip_install('heic')} reads these"
        ) from None
    reader: Callable[[IO[bytes]], ImageFile.ImageFile] = HeifImageFile
    return reader


@contextmanager
def _read_errors() -> Iterator[None]:
    try:
        yield
    except _READ_ERRORS as error:
        raise_system_error(error)
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PictureError("damaged", f"damaged or cut short ({detail})") from error


@contextmanager
def _tolerance() -> Iterator[None]:
    """Let Pillow ignore damaged metadata, and end a JPEG that has no end."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False


def _format_of(file: IO[bytes]) -> Format:
    stored_format = format_of(file)
    if stored_format is not None:
        return stored_format
    empty = not file.read(1)
    raise PictureError(
        "not_a_picture", "the file is empty" if empty else "not a picture that Hasse can read"
    )


def _opened(file: IO[bytes], stored_format: Format, limits: PictureLimits) -> ImageFile.ImageFile:
    """Read the header and check the size."""
    Image.MAX_IMAGE_PIXELS = limits.pixels
    try:
        with _tolerance():
            picture = _read(file, stored_format)
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"more than {limits.pixels:,} pixels") from error
    sizes = [picture.size]
    if isinstance(picture, TiffImageFile):
        # A tile may be larger than the picture, and is decoded whole.
        sizes.append((picture.tag_v2.get(_TILE_WIDTH, 0), picture.tag_v2.get(_TILE_LENGTH, 0)))
    most = limits.reducible if stored_format is formats.JPEG else limits.pixels
    for width, height in sizes:
        if width * height > most:
            raise too_many_pixels(width, height, most)
    return picture


def _read(file: IO[bytes], stored_format: Format) -> ImageFile.ImageFile:
    """Read the header; if its metadata is too damaged for Pillow, without it."""
    read = _reader_of(stored_format)
    if stored_format not in {formats.JPEG, formats.PNG}:
        return read(file)
    is_png = stored_format is formats.PNG
    try:
        return read(BytesIO(_png(file, _BESIDE_PNG)) if is_png else file)
    except (SyntaxError, ValueError, IndexError):
        file.seek(0)
        bare = _png(file, {b"tRNS"}) if is_png else _bare_jpeg(file.read())
        return read(BytesIO(bare))


def _png(file: IO[bytes], beside: Set[bytes]) -> bytes:
    """Return the blocks of a PNG that its pixels need, and the first one of each kind `beside`.

    Pillow reads only the orientation before the pixels, but it may stand behind them.
    """
    chunks, left, kind = [file.read(8)], set(beside), b""
    while kind != b"IEND" and len(head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        rest = size + 4  # content and checksum
        if kind in left or not kind[0] & 0x20:
            chunks.insert(2 if kind == b"eXIf" else len(chunks), head + file.read(rest))
            left.discard(kind)
        else:
            file.seek(rest, os.SEEK_CUR)
    return b"".join(chunks)


def _bare_jpeg(content: bytes) -> bytes:
    """Leave out the comments and application data before the first other segment of a JPEG.

    JFIF (E0) and Adobe (EE) stay, since they say how colours are coded.
    """
    chunks, at = [content[:2]], 2
    while (marker := content[at : at + 2]) == b"\xff\xfe" or b"\xff\xe0" <= marker <= b"\xff\xef":
        stop = at + 2 + int.from_bytes(content[at + 2 : at + 4], "big")
        if marker in {b"\xff\xe0", b"\xff\xee"}:
            chunks.append(content[at:stop])
        at = stop
    # A segment that is too long ends within the next marker.
    return b"".join(chunks) + b"\xff" + content[at:].removeprefix(b"\xff")


def _draft(picture: JpegImageFile, limits: PictureLimits, at_least: int | None) -> bool:
    """Let a JPEG be decoded at half, a quarter or an eighth of its size.

    Returns:
        whether its end marker is there.
    """
    width, height = picture.size
    scale = 1
    while scale < 8 and -(-width // scale) * -(-height // scale) > limits.pixels:
        scale *= 2
    if at_least is not None:
        scale = max(scale, min(width // at_least, height // at_least))
    picture.draft(None, (max(1, width // scale), max(1, height // scale)))
    if picture.width * picture.height > limits.pixels:
        raise too_many_pixels(width, height, limits.pixels)
    scans, whole = _scans(picture)
    if scans * width * height > limits.scanned:
        raise PictureError("damaged", f"{scans:,} scans of {width:,} x {height:,} pixels")
    # All coefficients of several scans are held in memory, in 16 bits, whatever the scale.
    layers = len(picture.layer)
    if scans > 1 and width * height * layers > 8 * limits.pixels:
        raise too_many_pixels(width, height, 8 * limits.pixels // layers)
    return whole


def _scans(picture: JpegImageFile) -> tuple[int, bool]:
    """Return the number of scans of an opened JPEG, and whether its end marker is there."""
    file = cast("IO[bytes]", picture.fp)
    at = file.tell()  # behind the head of the first scan
    scans, end, last = 1, -1, b""
    while end < 0 and (more := file.read(_PIECE)):
        piece = last + more  # a marker may stand in two pieces
        end = piece.find(b"\xff\xd9")
        scans += piece.count(b"\xff\xda", 0, len(piece) if end < 0 else end)
        last = piece[-1:]
    file.seek(at)
    return scans, end >= 0


def _loaded(picture: ImageFile.ImageFile, *, whole: bool) -> Image.Image:
    """Decode the pixels; of a picture that is cut short, those that are there."""
    layout, interlaced = "", False
    if isinstance(picture, PngImageFile):
        layout = str(picture.tile[0].args)
        interlaced = bool(picture.info.get("interlace"))
    elif isinstance(picture, GifImageFile):
        interlaced = bool(cast("tuple[int, bool]", picture.tile[0].args)[1])
    try:
        if whole:
            picture.load()
        else:
            with _tolerance():
                picture.load()
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"{error}") from error
    except _READ_ERRORS as error:
        raise_system_error(error)
        by_rows = isinstance(picture, JpegImageFile | PngImageFile | GifImageFile | BmpImageFile)
        if not by_rows or interlaced or picture._im is None:
            raise
        picture.tile = []  # nothing more is decoded
        whole = False
    if not whole:
        _require_most_rows(picture)
    clear = picture.info.get("transparency")
    if clear is not None and layout in _TO_8_BITS:
        picture.info["transparency"] = _TO_8_BITS[layout](clear)
    return picture


def _has_alpha(picture: Image.Image) -> bool:
    """Return whether anything can be seen. Programs leave the alpha of a BMP at zero throughout."""
    return picture.mode != "RGBA" or picture.getchannel("A").getbbox() is not None


def _halvings(side: int, at_least: int) -> int:
    """Return how often a side can be halved without becoming shorter than `at_least`."""
    return max(1, side // max(1, at_least)).bit_length() - 1


def _displayed(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    return size if orientation < 5 else (size[1], size[0])


def _orientation(picture: Image.Image) -> int:
    """Return EXIF's orientation; Pillow undoes that of a TIFF, and pillow-heif that of HEIC."""
    if not isinstance(picture, JpegImageFile | PngImageFile | WebPImageFile | AvifImageFile):
        return 1
    exif = Image.Exif()
    try:
        exif.load(picture.info.get("exif", b""))
        value = exif.get(ExifTags.Base.Orientation)
    except _READ_ERRORS:
        return 1
    return value if isinstance(value, int) else 1


def _require_most_rows(picture: Image.Image) -> None:
    """Refuse a picture that was cut short, if more than a small part of its rows is missing.

    Missing rows are black or transparent, but those of a JPEG grey; a BMP begins at its bottom.
    """
    width, height = picture.size
    for top, bottom in ((int(height * _MOST_ROWS), height), (0, int(height * (1 - _MOST_ROWS)))):
        rows = np.asarray(picture.crop((0, top, width, max(bottom, top + 1))))
        first = rows[0, 0]
        if (rows == first).all() and np.isin(first, (0, 127, 128)).all():
            raise OSError(f"fewer than {_MOST_ROWS:.0%} of its rows are there")
