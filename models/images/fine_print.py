"""Tells pages apart that differ only in small text: two letters on one form are two pictures.

The thumbnails of `perceptual_hash` are too small for that. This looks, in full size, only where a
picture has something on an even ground, as text has: two versions of a photograph may differ
elsewhere by more than two pages do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

SIDE = 1536  # pixels of the longer side that are compared
_BLOCK = 32  # pixels on either side of a block that may hold text
_WINDOW = 8  # pixels on either side of the smallest difference: a digit of a page
_EVEN = 20  # largest distance from its ground, of 255, that counts as ground
_INK = 60  # smallest distance from its ground that counts as ink
_MIN_GROUND, _MIN_INK = 0.4, 0.01  # shares of a block that is text
_SHIFT, _CUT_SHIFT = 1, 4  # pixels that a version may be moved, whole or cut
_SMALL = (128, 128)  # pixels, to find out how one is turned and cut
_CUTS = (0.0, 0.01, 0.02)  # shares that one picture may lack on each side
_MAX_DIFFERENCE = 0.25  # of the contrast, in one window

Pixels = NDArray[np.float32]


def same_print(picture: Image.Image, other_picture: Image.Image) -> bool:
    """Return whether two versions of a picture have the same small text.

    They may differ in size, compression, brightness, by quarter turns, and by a cut of 2 % on each
    side. A version that is too small for its text to be read is compared at its own size.
    """
    first, second = picture.convert("L"), other_picture.convert("L")
    cuts = [(cut, 0.0) for cut in _CUTS] + [(0.0, cut) for cut in _CUTS[1:]]
    turns = min(range(4), key=lambda turns: _distance(first, second, (0.0, 0.0), turns))
    cut, other_cut = min(cuts, key=lambda cuts: _distance(first, second, cuts, turns))
    second = second.rotate(90 * turns, expand=True)
    share = min(1.0, *(SIDE / max(each.size) for each in (first, second)))
    width, height = (round(share * min(first.size[at], second.size[at])) for at in (0, 1))
    if min(width, height) < _BLOCK:
        return True
    size = (width // _BLOCK * _BLOCK, height // _BLOCK * _BLOCK)
    shift = _CUT_SHIFT if cut or other_cut else _SHIFT
    return not _differs(_pixels(first, size, cut), _pixels(second, size, other_cut), shift)


def _distance(
    picture: Image.Image, other_picture: Image.Image, cuts: tuple[float, float], turns: int
) -> float:
    """Return the mean difference of two pictures, cut and the other turned, as thumbnails."""
    first, second = (
        np.asarray(each.resize(_SMALL, Image.Resampling.BOX, _box(each, cut)), np.float32)
        for each, cut in zip((picture, other_picture), cuts, strict=True)
    )
    # Whatever their brightness and contrast are.
    first, second = ((each - each.mean()) / max(float(each.std()), 1.0) for each in (first, second))
    return float(np.abs(first - np.rot90(second, turns)).mean())


def _box(picture: Image.Image, cut: float) -> tuple[float, float, float, float]:
    width, height = picture.size
    return cut * width, cut * height, (1 - cut) * width, (1 - cut) * height


def _pixels(picture: Image.Image, size: tuple[int, int], cut: float) -> Pixels:
    """Return the grey levels (H, W) of a picture without a share of each side, a little blurred.

    Blurring makes up for shifts by parts of a pixel.
    """
    reduced = picture.resize(size, Image.Resampling.BOX, _box(picture, cut))
    levels = np.asarray(reduced.filter(ImageFilter.GaussianBlur(1)), np.float32)
    low, high = np.percentile(levels[::4, ::4], (0.5, 99.5))
    stretched: Pixels = np.clip((levels - low) * (255 / max(float(high - low), 1.0)), 0, 255)
    return stretched


def _differs(ours: Pixels, theirs: Pixels, shift: int) -> bool:
    """Return whether a block with text differs, wherever it is moved within `shift` pixels."""
    (ground, ink), (other_ground, other_ink) = _shares(ours), _shares(theirs)
    has_text = (np.minimum(ground, other_ground) >= _MIN_GROUND) & (
        np.maximum(ink, other_ink) >= _MIN_INK
    )
    rows, columns = np.nonzero(has_text)
    padded = np.pad(theirs, shift, mode="edge")
    for row, column in zip(rows * _BLOCK, columns * _BLOCK, strict=True):
        block = _relative(ours[row : row + _BLOCK, column : column + _BLOCK])
        near = _relative(
            padded[row : row + _BLOCK + 2 * shift, column : column + _BLOCK + 2 * shift]
        )
        moved = np.lib.stride_tricks.sliding_window_view(near, (_BLOCK, _BLOCK))
        if _largest(moved[shift, shift] - block) <= _MAX_DIFFERENCE:
            continue
        if min(_largest(each - block) for line in moved for each in line) > _MAX_DIFFERENCE:
            return True
    return False


def _relative(block: Pixels) -> Pixels:
    """Return the levels of a block relative to its ground, as shares of its contrast."""
    relative: Pixels = (block - np.median(block)) / max(float(np.ptp(block)), float(_INK))
    return relative


def _shares(levels: Pixels) -> tuple[Pixels, Pixels]:
    """Return the shares of each block that are an even ground, and ink on it."""
    height, width = levels.shape
    blocks = levels.reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).swapaxes(1, 2)
    distances = np.abs(blocks - np.median(blocks, axis=(2, 3), keepdims=True))
    return (distances <= _EVEN).mean((2, 3)), (distances >= _INK).mean((2, 3))


def _largest(difference: Pixels) -> float:
    """Return the largest mean difference of a window."""
    parts = _BLOCK // _WINDOW
    windows = np.abs(difference).reshape(parts, _WINDOW, parts, _WINDOW).mean((1, 3))
    return float(windows.max())
