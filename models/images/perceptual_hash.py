"""Detects the same picture in another size, format, compression or rotation.

A hash of 35 bytes finds pictures that may be the same: hashes of versions of one picture are near
each other as points. `same_picture` then compares their thumbnails. Both ignore brightness and
rotations by quarter turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

THUMBNAIL = 128  # pixels on either side
NEAR = 0.21  # largest distance of hashes, as points, of pictures that may be the same
_HASH_SIDE, _SIDE = 32, 64  # pixels on either side, for hashes and comparisons
_LOWEST = 8  # number of the lowest frequencies, in each direction
_BLOCKS = 8  # on either side, of a comparison
_FLAT = 4.0  # standard deviation of pixels, of 255, below which pictures cannot be compared
_CUTS = (0.01, 0.02)  # shares that one picture may lack on each side
# Largest residuals of the same picture, as shares of its contrast: of the whole, and of a block.
# Photographs that were halved, cropped or made brighter have at most 0.2 and 0.63.
_MAX_RESIDUAL, _MAX_BLOCK_RESIDUAL = 0.28, 0.65
_HOPELESS = 0.8  # residual of the whole, above which no cut is tried
_MAX_CONTRAST = 2.0  # largest ratio of contrasts

Pixels = NDArray[np.float32]


def _cosines() -> NDArray[np.float32]:
    """Return the lowest rows (_LOWEST, _SCALED) of the discrete cosine transform."""
    at = np.arange(_HASH_SIDE)
    waves = np.cos(np.pi * (2 * at + 1) * np.arange(_LOWEST)[:, None] / (2 * _HASH_SIDE))
    return waves.astype(np.float32)


_WAVES = _cosines()
_UPPER = np.triu_indices(_LOWEST)
_BYTES = len(_UPPER[0]) - 1


def thumbnail_of(picture: Image.Image) -> Image.Image:
    """Return an RGB picture of THUMBNAIL pixels on either side, whatever its shape was."""
    is_reduced = min(picture.size) >= THUMBNAIL
    resampling = Image.Resampling.BOX if is_reduced else Image.Resampling.BILINEAR
    return picture.convert("RGB").resize((THUMBNAIL, THUMBNAIL), resampling)


def perceptual_hash(thumbnail: Image.Image) -> bytes:
    """Return the hash of a picture by its thumbnail; b"" for a flat picture.

    Each byte is the common strength of the frequencies (i, j) and (j, i), because quarter turns
    exchange them and change signs. Division by their length removes the contrast.
    """
    pixels = _pixels(thumbnail.convert("L"), _HASH_SIDE)
    if pixels.std() < _FLAT:
        return b""
    waves = _WAVES @ pixels @ _WAVES.T
    strengths = np.sqrt(waves**2 + waves.T**2)[_UPPER][1:]
    shares = strengths / max(float(np.linalg.norm(strengths)), 1e-6)
    return np.round(255 * shares).astype(np.uint8).tobytes()


def hash_points(hashes: Sequence[bytes]) -> NDArray[np.float32]:
    """Return hashes, none of them empty, as points (R, 35) of length about 1."""
    joined = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), _BYTES)
    return joined.astype(np.float32) / np.float32(255)


def same_picture(thumbnail: Image.Image, other_thumbnail: Image.Image) -> bool:
    """Return whether two thumbnails show the same picture, in every part of it.

    One may be brighter, rotated by quarter turns, or cropped by the same share on each side.
    """
    first, second = _pixels(thumbnail, _SIDE), _pixels(other_thumbnail, _SIDE)
    rotations = [(_residuals(first, np.rot90(second, turns)), turns) for turns in range(4)]
    residuals, turns = min(rotations)
    if residuals[0] > _HOPELESS:
        return False
    cuts = [*((cut, 0.0) for cut in _CUTS), *((0.0, cut) for cut in _CUTS)]
    residuals_of_cuts = (
        _residuals(
            _pixels(thumbnail, _SIDE, cut),
            np.rot90(_pixels(other_thumbnail, _SIDE, other_cut), turns),
        )
        for cut, other_cut in cuts
    )
    return _is_small(residuals) or any(map(_is_small, residuals_of_cuts))


def _pixels(thumbnail: Image.Image, size: int, cut: float = 0.0) -> Pixels:
    """Return a thumbnail scaled to (size, size, ...), without a share of each side."""
    edge = cut * THUMBNAIL
    box = (edge, edge, THUMBNAIL - edge, THUMBNAIL - edge)
    return np.asarray(thumbnail.resize((size, size), Image.Resampling.BOX, box), np.float32)


def _residuals(picture: Pixels, other_picture: Pixels) -> tuple[float, float]:
    """Return the residuals of pictures (S, S, 3) of equal contrast: whole, and largest block."""
    first, second = picture - picture.mean((0, 1)), other_picture - other_picture.mean((0, 1))
    if min(first.std(), second.std()) < _FLAT:
        return np.inf, np.inf
    gain = float((first * second).sum() / (second * second).sum())
    if not 1 / _MAX_CONTRAST <= gain <= _MAX_CONTRAST:
        return np.inf, np.inf
    errors = ((first - gain * second) ** 2).mean(2)
    contrast = min(float(first.var()), gain**2 * float(second.var()))
    block_side = _SIDE // _BLOCKS
    blocks = errors.reshape(_BLOCKS, block_side, _BLOCKS, block_side).mean((1, 3))
    return float(np.sqrt(errors.mean() / contrast)), float(np.sqrt(blocks.max() / contrast))


def _is_small(residuals: tuple[float, float]) -> bool:
    return residuals[0] <= _MAX_RESIDUAL and residuals[1] <= _MAX_BLOCK_RESIDUAL
