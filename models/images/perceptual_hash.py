"""Whether two files hold the same picture: in another size, format, compression or rotation.

A hash of 35 bytes says which pictures may be the same: hashes of versions of one picture are near
each other as points. `same_picture` then compares their thumbnails. Both ignore how bright a
picture is and by how many quarter turns it is rotated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

THUMBNAIL = 128  # pixels on either side
NEAR = 0.21  # distance of hashes, as points, of pictures that may be the same
_SCALED, _COMPARED = 32, 64  # pixels on either side that are hashed, and compared
_LOWEST = 8  # frequencies of each direction
_BLOCKS = 4  # on either side, of a comparison
_FLAT = 4.0  # a picture whose pixels deviate less, of 255, shows nothing to go by
_CROPS = (0.0, 0.01, 0.02)  # shares that may be cut off each side
# Largest deviations that are left of pictures of equal contrast, as shares of it. Pages of one
# letter head leave 0.35 in all and 0.55 in a block; a picture that was halved leaves 0.16 and 0.23.
_ALL_LEFT, _BLOCK_LEFT = 0.28, 0.5
_CONTRAST = 2.0  # most by which contrasts differ

Pixels = NDArray[np.float32]


def _cosines() -> NDArray[np.float32]:
    """Return the lowest rows (_LOWEST, _SCALED) of the discrete cosine transform."""
    at = np.arange(_SCALED)
    waves = np.cos(np.pi * (2 * at + 1) * np.arange(_LOWEST)[:, None] / (2 * _SCALED))
    return waves.astype(np.float32)


_WAVES = _cosines()
_UPPER = np.triu_indices(_LOWEST)
_BYTES = len(_UPPER[0]) - 1


def thumbnail_of(picture: Image.Image) -> Image.Image:
    """Return a picture in grey, THUMBNAIL pixels on either side whatever its shape."""
    reduced = min(picture.size) >= THUMBNAIL
    how = Image.Resampling.BOX if reduced else Image.Resampling.BILINEAR
    return picture.resize((THUMBNAIL, THUMBNAIL), how).convert("L")


def perceptual_hash(thumbnail: Image.Image) -> bytes:
    """Return the hash of a picture by its thumbnail; b"" where it is flat.

    A byte is the strength of a frequency (i, j) together with (j, i): quarter turns exchange them
    and change their signs. All are divided by their length, which brightness and contrast change.
    """
    pixels = _pixels(thumbnail, _SCALED)
    if pixels.std() < _FLAT:
        return b""
    waves = _WAVES @ pixels @ _WAVES.T
    strengths = np.sqrt(waves**2 + waves.T**2)[_UPPER][1:]
    shares = strengths / max(float(np.linalg.norm(strengths)), 1e-6)
    return np.round(255 * shares).astype(np.uint8).tobytes()


def hash_points(hashes: Sequence[bytes]) -> NDArray[np.float32]:
    """Return hashes, none of them empty, as points (R, 35) about 1 long."""
    joined = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), _BYTES)
    return joined.astype(np.float32) / np.float32(255)


def same_picture(one: Image.Image, other: Image.Image) -> bool:
    """Tell whether two thumbnails are of one picture: alike in every part of it.

    One may be brighter, rotated by quarter turns, or cut off by the same share on each side.
    """
    cuts = [(0.0, 0.0), *((cut, 0.0) for cut in _CROPS[1:]), *((0.0, cut) for cut in _CROPS[1:])]
    return any(
        _alike(_pixels(one, _COMPARED, cut), np.rot90(_pixels(other, _COMPARED, other_cut), turns))
        for cut, other_cut in cuts
        for turns in range(4)
    )


def _pixels(thumbnail: Image.Image, size: int, cut: float = 0.0) -> Pixels:
    """Return a thumbnail scaled to (size, size), without a share of each side."""
    edge = cut * THUMBNAIL
    box = (edge, edge, THUMBNAIL - edge, THUMBNAIL - edge)
    return np.asarray(thumbnail.resize((size, size), Image.Resampling.BOX, box), np.float32)


def _alike(one: Pixels, other: Pixels) -> bool:
    first, second = one - one.mean(), other - other.mean()
    energy = float((second * second).sum())
    if min(first.std(), second.std()) < _FLAT:
        return False
    gain = float((first * second).sum()) / energy
    if not 1 / _CONTRAST <= gain <= _CONTRAST:
        return False
    left = (first - gain * second) ** 2
    contrast = min(float(first.var()), gain**2 * float(second.var()))
    if left.mean() > _ALL_LEFT**2 * contrast:
        return False
    each = _COMPARED // _BLOCKS
    blocks = left.reshape(_BLOCKS, each, _BLOCKS, each).mean((1, 3))
    return bool(blocks.max() <= _BLOCK_LEFT**2 * contrast)
