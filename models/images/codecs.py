"""Decodes untrusted pictures with Pillow, and its extras for HEIC and RAW.

The first bytes decide the format. Pictures outside the allow-list, or with more pixels than the
limit, are refused before their pixels are decoded. A JPEG above the limit is decoded at a reduced
size. Damaged metadata is ignored, and a truncated picture is read if most of its rows are there.
`decoder` runs this in processes that can be killed: this module changes Pillow's settings, and some
of Pillow's readers hold Python's interpreter lock.
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

_CHUNK_BYTES = 1 << 20  # of a file, read at a time
_MIN_ROWS = 0.8  # smallest share of rows of a truncated picture
_PNG_METADATA = {b"tRNS", b"iCCP", b"eXIf"}  # chunks that are read besides the pixels
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF

# Broken metadata (EXIF, animation) does not affect pixels, so it needs no warning.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
# Up to twice its limit of pixels, Pillow only warns. We set the limit, and make this an error.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
_BOMBS = (Image.DecompressionBombWarning, Image.DecompressionBombError)

# Errors of Pillow's readers on damaged bytes.
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

# Converts the transparent colour of a PNG to the depth of Pillow's pixels, by the file's pixel
# layout. Pillow drops the lower 8 of 16 bits.
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
class DecodedPicture:
    """An upright RGB picture, and its format and size before any reduction."""

    image: Image.Image
    size: tuple[int, int]
    format: Format


def decode(file: IO[bytes], limits: PictureLimits, at_least: int | None = None) -> DecodedPicture:
    """Decode a picture as `decoding.open_picture` does; raises the same errors."""
    with _read_errors():
        stored_format = _format_of(file)
        if stored_format is formats.RAW:
            size = raw.size(file, limits)
            developed = raw.read(file, limits, at_least)
            if isinstance(developed, bytes):
                developed = decode(BytesIO(developed), limits, at_least).image
            return DecodedPicture(developed, size, stored_format)
        picture = _open_header(file, stored_format, limits)
        size, is_complete, frame_box = picture.size, True, None
        if isinstance(picture, JpegImageFile):
            is_complete = _draft(picture, limits, at_least)
        elif isinstance(picture, GifImageFile):
            frame_box = picture.tile[0].extents
        loaded = _load_pixels(picture, is_complete=is_complete)
        orientation = _orientation(picture)
        if isinstance(picture, BmpImageFile) and not _has_alpha(loaded):
            loaded = loaded.convert("RGB")
        del picture  # Pillow's WebP reader keeps three copies of the pixels
        transpose = _UPRIGHT.get(orientation)
        if transpose is not None:
            loaded = loaded.transpose(transpose)
        image = to_srgb(loaded)
        if frame_box is not None and frame_box != (0, 0, *size):
            frame, image = image.crop(frame_box), Image.new("RGB", image.size, "white")
            image.paste(frame, frame_box)
        if at_least is not None and stored_format is not formats.JPEG:  # `_draft` reduced it
            image = image.reduce(2 ** _halvings(min(image.size), at_least))
        return DecodedPicture(image, _displayed_size(size, orientation), stored_format)


def size_of(file: IO[bytes], limits: PictureLimits) -> tuple[int, int]:
    """Return a picture's size as `decoding.picture_size` does; raises the same errors."""
    with _read_errors():
        stored_format = _format_of(file)
        if stored_format is formats.RAW:
            return raw.size(file, limits)
        picture = _open_header(file, stored_format, limits)
        return _displayed_size(picture.size, _orientation(picture))


def header_of(file: IO[bytes]) -> tuple[ImageFile.ImageFile, Image.Exif] | None:
    """Open a picture for its metadata, without decoding pixels; None if Pillow cannot read any.

    Raises:
        Exception: Pillow may raise any error on damaged metadata.
    """
    file.seek(0)
    stored_format = format_of(file)
    if stored_format is None or stored_format is formats.RAW:
        return None
    picture = _reader_of(stored_format)(file)
    # Reading EXIF after the pixels of a PNG would decode them.
    after_pixels = isinstance(picture, PngImageFile) and "exif" not in picture.info
    return picture, Image.Exif() if after_pixels else picture.getexif()


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
    """Let Pillow ignore damaged metadata, and decode truncated pictures."""
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


def _open_header(
    file: IO[bytes], stored_format: Format, limits: PictureLimits
) -> ImageFile.ImageFile:
    """Read the header and check the size."""
    Image.MAX_IMAGE_PIXELS = limits.pixels
    try:
        with _tolerance():
            picture = _read_header(file, stored_format)
    except _BOMBS as error:
        raise PictureError("too_many_pixels", f"more than {limits.pixels:,} pixels") from error
    sizes = [picture.size]
    if isinstance(picture, TiffImageFile):
        # A tile may be larger than the picture, and is decoded whole.
        sizes.append((picture.tag_v2.get(_TILE_WIDTH, 0), picture.tag_v2.get(_TILE_LENGTH, 0)))
    limit = limits.reducible_pixels if stored_format is formats.JPEG else limits.pixels
    for width, height in sizes:
        if width * height > limit:
            raise too_many_pixels(width, height, limit)
    return picture


def _read_header(file: IO[bytes], stored_format: Format) -> ImageFile.ImageFile:
    """Read the header, without its metadata if that is too damaged for Pillow."""
    read = _reader_of(stored_format)
    if stored_format not in {formats.JPEG, formats.PNG}:
        return read(file)
    is_png = stored_format is formats.PNG
    try:
        return read(BytesIO(_strip_png(file, _PNG_METADATA)) if is_png else file)
    except (SyntaxError, ValueError, IndexError):
        file.seek(0)
        stripped = _strip_png(file, {b"tRNS"}) if is_png else _strip_jpeg(file.read())
        return read(BytesIO(stripped))


def _strip_png(file: IO[bytes], metadata: Set[bytes]) -> bytes:
    """Return a PNG with only the chunks of its pixels and the first of each kind `metadata`.

    Moves EXIF before the pixels, because Pillow ignores an orientation after them.
    """
    chunks, missing, kind = [file.read(8)], set(metadata), b""
    while kind != b"IEND" and len(chunk_head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", chunk_head)
        rest = size + 4  # content and checksum
        if kind in missing or not kind[0] & 0x20:
            chunks.insert(2 if kind == b"eXIf" else len(chunks), chunk_head + file.read(rest))
            missing.discard(kind)
        else:
            file.seek(rest, os.SEEK_CUR)
    return b"".join(chunks)


def _strip_jpeg(content: bytes) -> bytes:
    """Return a JPEG without the comments and application data at its start.

    JFIF (E0) and Adobe (EE) stay: they define how colours are encoded.
    """
    chunks, at = [content[:2]], 2
    while (marker := content[at : at + 2]) == b"\xff\xfe" or b"\xff\xe0" <= marker <= b"\xff\xef":
        stop = at + 2 + int.from_bytes(content[at + 2 : at + 4], "big")
        if marker in {b"\xff\xe0", b"\xff\xee"}:
            chunks.append(content[at:stop])
        at = stop
    # After a segment with a wrong length, `at` may be inside the next marker.
    return b"".join(chunks) + b"\xff" + content[at:].removeprefix(b"\xff")


def _draft(picture: JpegImageFile, limits: PictureLimits, at_least: int | None) -> bool:
    """Let a JPEG be decoded at half, a quarter or an eighth of its size.

    Returns:
        whether the JPEG has its end marker.
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
    scans, is_complete = _scans(picture)
    if scans * width * height > limits.scan_pixels:
        raise PictureError("damaged", f"{scans:,} scans of {width:,} x {height:,} pixels")
    # With several scans, all coefficients are in memory, in 16 bits, at any scale.
    layers = len(picture.layer)
    if scans > 1 and width * height * layers > 8 * limits.pixels:
        raise too_many_pixels(width, height, 8 * limits.pixels // layers)
    return is_complete


def _scans(picture: JpegImageFile) -> tuple[int, bool]:
    """Return the number of scans of an opened JPEG, and whether it has its end marker."""
    file = cast("IO[bytes]", picture.fp)
    at = file.tell()  # after the header of the first scan
    scans, end, last = 1, -1, b""
    while end < 0 and (more := file.read(_CHUNK_BYTES)):
        piece = last + more  # a marker may be split between two chunks
        end = piece.find(b"\xff\xd9")
        scans += piece.count(b"\xff\xda", 0, len(piece) if end < 0 else end)
        last = piece[-1:]
    file.seek(at)
    return scans, end >= 0


def _load_pixels(picture: ImageFile.ImageFile, *, is_complete: bool) -> Image.Image:
    """Decode the pixels, and the available ones of a truncated picture."""
    layout, interlaced = "", False
    if isinstance(picture, PngImageFile):
        layout = str(picture.tile[0].args)
        interlaced = bool(picture.info.get("interlace"))
    elif isinstance(picture, GifImageFile):
        interlaced = bool(cast("tuple[int, bool]", picture.tile[0].args)[1])
    try:
        if is_complete:
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
        picture.tile = []  # decode nothing more
        is_complete = False
    if not is_complete:
        _require_rows(picture)
    transparent = picture.info.get("transparency")
    if transparent is not None and layout in _TO_8_BITS:
        picture.info["transparency"] = _TO_8_BITS[layout](transparent)
    return picture


def _has_alpha(picture: Image.Image) -> bool:
    """Return whether a BMP uses alpha. Many programs leave it at zero for all pixels."""
    return picture.mode != "RGBA" or picture.getchannel("A").getbbox() is not None


def _halvings(side: int, at_least: int) -> int:
    """Return how often a side can be halved without becoming shorter than `at_least`."""
    return max(1, side // max(1, at_least)).bit_length() - 1


def _displayed_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    return size if orientation < 5 else (size[1], size[0])


def _orientation(picture: Image.Image) -> int:
    """Return EXIF's orientation; Pillow and pillow-heif already apply that of TIFF and HEIC."""
    if not isinstance(picture, JpegImageFile | PngImageFile | WebPImageFile | AvifImageFile):
        return 1
    exif = Image.Exif()
    try:
        exif.load(picture.info.get("exif", b""))
        value = exif.get(ExifTags.Base.Orientation)
    except _READ_ERRORS:
        return 1
    return value if isinstance(value, int) else 1


def _require_rows(picture: Image.Image) -> None:
    """Refuse a truncated picture if more than a small share of its rows is missing (OSError).

    Missing rows are black or transparent, in a JPEG grey. A BMP begins with its last row.
    """
    width, height = picture.size
    for top, bottom in ((int(height * _MIN_ROWS), height), (0, int(height * (1 - _MIN_ROWS)))):
        rows = np.asarray(picture.crop((0, top, width, max(bottom, top + 1))))
        first = rows[0, 0]
        if (rows == first).all() and np.isin(first, (0, 127, 128)).all():
            raise OSError(f"fewer than {_MIN_ROWS:.0%} of its rows are there")
