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
_BLOCKS = 8  # on either side, of a comparison
_FLAT = 4.0  # a picture whose pixels deviate less, of 255, shows nothing to go by
_CUTS = (0.01, 0.02)  # shares that may be cut off each side
# Largest deviations that are left of pictures of equal contrast, as shares of it: in all, and in a
# block. Photographs that were halved, cropped or made brighter leave 0.2 and 0.63 at most.
_ALL_LEFT, _BLOCK_LEFT = 0.28, 0.65
_HOPELESS = 0.8  # in all, before anything is cut off
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
    """Return a picture in RGB, THUMBNAIL pixels on either side whatever its shape."""
    reduced = min(picture.size) >= THUMBNAIL
    how = Image.Resampling.BOX if reduced else Image.Resampling.BILINEAR
    return picture.convert("RGB").resize((THUMBNAIL, THUMBNAIL), how)


def perceptual_hash(thumbnail: Image.Image) -> bytes:
    """Return the hash of a picture by its thumbnail; b"" where it is flat.

    A byte is the strength of a frequency (i, j) together with (j, i): quarter turns exchange them
    and change their signs. All are divided by their length, which brightness and contrast change.
    """
    pixels = _pixels(thumbnail.convert("L"), _SCALED)
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
    first, second = _pixels(one, _COMPARED), _pixels(other, _COMPARED)
    rotations = [(_left(first, np.rot90(second, turns)), turns) for turns in range(4)]
    left, turns = min(rotations)
    if left[0] > _HOPELESS:
        return False
    cuts = [*((cut, 0.0) for cut in _CUTS), *((0.0, cut) for cut in _CUTS)]
    others = (
        _left(_pixels(one, _COMPARED, cut), np.rot90(_pixels(other, _COMPARED, own), turns))
        for cut, own in cuts
    )
    return _is_little(left) or any(map(_is_little, others))


def _pixels(thumbnail: Image.Image, size: int, cut: float = 0.0) -> Pixels:
    """Return a thumbnail scaled to (size, size, ...), without a share of each side."""
    edge = cut * THUMBNAIL
    box = (edge, edge, THUMBNAIL - edge, THUMBNAIL - edge)
    return np.asarray(thumbnail.resize((size, size), Image.Resampling.BOX, box), np.float32)


def _left(one: Pixels, other: Pixels) -> tuple[float, float]:
    """Return what differs between pictures (S, S, 3) of equal contrast: in all, and in a block."""
    first, second = one - one.mean((0, 1)), other - other.mean((0, 1))
    if min(first.std(), second.std()) < _FLAT:
        return np.inf, np.inf
    gain = float((first * second).sum() / (second * second).sum())
    if not 1 / _CONTRAST <= gain <= _CONTRAST:
        return np.inf, np.inf
    left = ((first - gain * second) ** 2).mean(2)
    contrast = min(float(first.var()), gain**2 * float(second.var()))
    each = _COMPARED // _BLOCKS
    blocks = left.reshape(_BLOCKS, each, _BLOCKS, each).mean((1, 3))
    return float(np.sqrt(left.mean() / contrast)), float(np.sqrt(blocks.max() / contrast))


def _is_little(left: tuple[float, float]) -> bool:
    return left[0] <= _ALL_LEFT and left[1] <= _BLOCK_LEFT
