"""Which sizes of a stored picture a browser may choose from: the `srcset` of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hasse.service.addresses import preview_url, thumbnail_url
from hasse.service.core.previews import preview_size

SourceSize = Literal["thumbnail", "medium", "large"]


# Tenths of a width to a height of 1, between which a row shows a picture whole.
_NARROWEST, _WIDEST = 5, 40


def shape(pixels: tuple[int | None, int | None]) -> int:
    """Return the shape of a picture in a row, in tenths: 15 is half as wide again as high."""
    width, height = pixels
    if not width or not height:
        return 13  # about that of most cameras
    return min(_WIDEST, max(_NARROWEST, round(10 * width / height)))


def srcset(
    image_id: int,
    pixels: tuple[int | None, int | None],
    sizes: Sequence[SourceSize],
    thumbnail_size: int,
) -> str:
    """Return the sources of a picture with their widths, each once; "" if its size is not known.

    Args:
        image_id: the image.
        pixels: the width and height of the picture.
        sizes: what to choose from, from the smallest.
        thumbnail_size: the longest side of a thumbnail.
    """
    width, height = pixels
    if not width or not height:
        return ""
    by_width: dict[int, str] = {}
    for size in sizes:
        if size == "thumbnail":
            shown = max(1, round(width * min(1.0, thumbnail_size / max(width, height))))
            by_width.setdefault(shown, thumbnail_url(image_id))
        else:
            shown, _ = preview_size(width, height, size)
            by_width.setdefault(shown, preview_url(image_id, size))
    return ", ".join(f"{url} {shown}w" for shown, url in by_width.items())
