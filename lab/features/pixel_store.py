"""Decoded pictures on disk, for training a backbone end to end.

Decoding a JPEG takes longer than a small network's forward pass. So each picture is decoded once,
cropped or squeezed to a square of `preprocessing.resize` pixels, and stored as bytes in one
memory-mapped file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.files import write_at, write_atomically
from hasse.models.images.decoding import open_picture, picture_stamp
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.models.images.preprocessing import Preprocessing
from hasse.service.writing.prefetch import decode_ahead

PIXELS, MANIFEST = "pixels.u8", "pixels.json"
CHUNK = 128  # pictures decoded between two commits; a few times as many are in memory


@dataclass(frozen=True, slots=True)
class PixelCache:
    """Pictures of one size: `pixels` is (n, size, size, 3) uint8, `image_ids` is (n,)."""

    image_ids: NDArray[np.int64]
    pixels: NDArray[np.uint8]
    preprocessing: Preprocessing


def cache_pixels(
    dataset: Dataset,
    preprocessing: Preprocessing,
    folder: Path,
    *,
    workers: int | None = None,
    limits: PictureLimits = DEFAULT_LIMITS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    skipped: Callable[[str], None] = lambda line: None,
    chunk: int = CHUNK,
) -> PixelCache:
    """Decode a dataset's pictures into `folder`, or open those of an earlier call.

    A killed run resumes at a multiple of `chunk` pictures. All pictures are decoded again if the
    cache is damaged or a picture's size or time of change differs. Pictures that cannot be decoded
    are left out, each with one line to `skipped`.

    Raises:
        DatasetError: no picture could be read.
    """
    size = preprocessing.resize
    identity = _identity(dataset, preprocessing)
    stamps = [picture_stamp(image.path) for image in dataset.images]  # before they are decoded
    contents = _read(folder, size**2 * 3)
    old_stamps = contents.get("stamps", [])
    same = contents.get("identity") == identity and len(old_stamps) == len(stamps)
    # Missing pictures (stamp 0) stay in the cache.
    if not same or any(now not in (0, then) for now, then in zip(stamps, old_stamps, strict=True)):
        contents = {"identity": identity, "stamps": stamps, "done": 0, "image_ids": []}
        _write(folder, contents)  # before its pictures are overwritten

    def square(image: Image) -> bytes:
        picture = open_picture(image.path, limits, size)
        return _square(picture, preprocessing).tobytes()

    for batch in decode_ahead(dataset.images[contents["done"] :], square, chunk, workers):
        for image, error in batch.unusable:
            skipped(f"{image.subject}: {error}: skipped")
        cached_ids, new_ids = contents["image_ids"], [image.id for image in batch.items]
        write_at(folder / PIXELS, len(cached_ids) * size**2 * 3, b"".join(batch.results))
        done = contents["done"] + len(batch.items) + len(batch.unusable)
        contents |= {"done": done, "image_ids": [*cached_ids, *new_ids]}
        _write(folder, contents)
        progress(done, len(dataset))
    image_ids = np.array(contents["image_ids"], dtype=np.int64)
    if not len(image_ids):
        raise DatasetError(
            f"no picture of the dataset '{dataset.name}' could be read: "
            f"check the paths in its dataset.json, or import it again"
        )
    pixels = np.memmap(folder / PIXELS, np.uint8, mode="r", shape=(len(image_ids), size, size, 3))
    return PixelCache(image_ids, pixels, preprocessing)


def _identity(dataset: Dataset, preprocessing: Preprocessing) -> str:
    digest = hashlib.sha256(json.dumps(asdict(preprocessing), sort_keys=True).encode())
    for image in dataset.images:
        digest.update(f"{image.id}\0{image.path}\0".encode())
    return digest.hexdigest()


def _read(folder: Path, picture_bytes: int) -> dict[str, Any]:
    """Read the manifest of a cache: an empty one if a file is missing or damaged.

    A manifest of 0.2.0 has no "done": it was written after all pictures.
    """
    try:
        contents: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        if (folder / PIXELS).stat().st_size >= len(contents["image_ids"]) * picture_bytes:
            return {"done": len(contents["stamps"])} | contents
    except (OSError, ValueError, KeyError):
        pass
    return {}


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / MANIFEST, json.dumps(manifest).encode())


def _square(picture: Pillow.Image, preprocessing: Preprocessing) -> Pillow.Image:
    """Scale a whole picture, or its largest central square, to a square in one pass."""
    width, height = picture.size
    crop_width, crop_height = width, height
    if preprocessing.framing == "centre":
        crop_width = crop_height = min(width, height)
    left, top = (width - crop_width) / 2, (height - crop_height) / 2
    return picture.resize(
        (preprocessing.resize, preprocessing.resize),
        Pillow.Resampling.BILINEAR,
        box=(left, top, left + crop_width, top + crop_height),
    )
