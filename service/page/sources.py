"""Makes the `srcset` of a stored picture: the sizes that a browser may choose from."""

from __future__ import annotations

from collections.abc import Sequence

from hasse.service.addresses import preview_url, thumbnail_url
from hasse.service.core.previews import ReducedSize, preview_size

# Limits of a shape, in tenths. A row crops pictures of other shapes.
_NARROWEST, _WIDEST = 5, 40


def shape(pixels: tuple[int | None, int | None]) -> int:
    """Return the width of a picture divided by its height, in tenths: 15 for 3:2."""
    width, height = pixels
    if not width or not height:
        return 13  # as of most cameras
    return min(_WIDEST, max(_NARROWEST, round(10 * width / height)))


def srcset(
    image_id: int,
    pixels: tuple[int | None, int | None],
    sizes: Sequence[ReducedSize],
    thumbnail_size: int,
) -> str:
    """Return the sources of a picture with their widths, each once; "" if its size is not known.

    Args:
        image_id: the image.
        pixels: the width and height of the picture.
        sizes: the sizes to choose from, the smallest first.
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
