"""Read RAW pictures of cameras with rawpy, which is an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from hasse.models.errors import pip_install
from hasse.models.images.limits import PictureError, PictureLimits, too_many_pixels

if TYPE_CHECKING:
    from rawpy import RawPy

_SIDEWAYS = {5, 6}  # LibRaw's numbers of quarter turns
_SMALLEST_PREVIEW = 256  # pixels of the shortest side; smaller ones are for a camera's screen


def size(file: IO[bytes], limits: PictureLimits) -> tuple[int, int]:
    """Return the width and height as displayed; raises PictureError as `read`."""
    with _open(file, limits) as raw_picture:
        sizes = raw_picture.sizes
        if sizes.flip in _SIDEWAYS:
            return sizes.height, sizes.width
        return sizes.width, sizes.height


def read(file: IO[bytes], limits: PictureLimits, at_least: int | None) -> bytes | Image.Image:
    """Return the JPEG preview of a RAW picture; develop it if the preview is missing or small.

    LibRaw adds the orientation to a preview without one. A picture is developed at half its size,
    without demosaicing, if its shortest side then still has `at_least` pixels.

    Raises:
        PictureError: rawpy is missing, the camera is unknown, or the picture damaged or too large.
    """
    with _open(file, limits) as raw_picture:
        preview = _preview(raw_picture)
        if preview and _shortest_side(preview) >= max(at_least or 0, _SMALLEST_PREVIEW):
            return preview
        sizes = raw_picture.sizes
        if sizes.raw_width * sizes.raw_height > limits.pixels:
            raise too_many_pixels(sizes.raw_width, sizes.raw_height, limits.pixels)
        half = at_least is not None and min(sizes.width, sizes.height) >= 2 * at_least
        return Image.fromarray(raw_picture.postprocess(half_size=half, use_camera_wb=True))


def _preview(raw_picture: RawPy) -> bytes:
    import rawpy

    try:
        thumbnail = raw_picture.extract_thumb()
    except (rawpy.LibRawNoThumbnailError, rawpy.LibRawUnsupportedThumbnailError):
        return b""
    return bytes(thumbnail.data) if thumbnail.format == rawpy.ThumbFormat.JPEG else b""


@contextmanager
def _open(file: IO[bytes], limits: PictureLimits) -> Iterator[RawPy]:
    try:
        import rawpy
    except ImportError:
        raise PictureError(
            "missing_package", f"a RAW picture: {pip_install('raw')} reads these"
        ) from None
    try:
        file.seek(0)
        with rawpy.imread(cast(BinaryIO, file)) as raw_picture:
            sizes = raw_picture.sizes
            if sizes.raw_width * sizes.raw_height > limits.reducible_pixels:
                raise too_many_pixels(sizes.raw_width, sizes.raw_height, limits.reducible_pixels)
            yield raw_picture
    except rawpy.LibRawFileUnsupportedError:
        raise PictureError("not_a_picture", "a RAW picture of an unknown camera") from None
    except rawpy.LibRawError as error:
        detail = error.args[0] if error.args else type(error).__name__
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise PictureError("damaged", f"damaged or cut short ({text})") from error


def _shortest_side(preview: bytes) -> int:
    try:
        return min(JpegImageFile(BytesIO(preview)).size)
    except (OSError, SyntaxError, ValueError):
        return 0
