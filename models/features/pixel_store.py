"""Decoded pictures on disk, for training a backbone end to end.

Decoding a JPEG costs more than a small network's pass over it. So each picture is decoded once,
cropped or squeezed to a square of `preprocessing.resize` pixels, and stored as bytes in one
memory-mapped file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.files import publish_file, write_atomically
from hasse.models.images.decoding import open_picture, picture_stamp
from hasse.models.images.limits import DEFAULT_LIMITS, PictureError, PictureLimits
from hasse.models.images.preprocessing import Preprocessing

PIXELS, MANIFEST, UNFINISHED = "pixels.u8", "pixels.json", "pixels.partial.json"
CHUNK = 512  # pictures decoded between two commits


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

    A killed run continues where it was, at a multiple of `chunk` pictures. All are decoded again if
    the cache is damaged or a picture's size or time of change differs. Pictures that cannot be
    decoded are left out, each with one line to `skipped`.

    Raises:
        DatasetError: no picture could be read.
    """
    size = preprocessing.resize
    wanted = _Contents(
        _identity(dataset, preprocessing), [picture_stamp(image.path) for image in dataset.images]
    )
    listed = _read(folder / MANIFEST)
    stored = (folder / PIXELS).stat().st_size if (folder / PIXELS).is_file() else 0
    if not wanted.match(listed) or stored != len(listed["image_ids"]) * size * size * 3:
        folder.mkdir(parents=True, exist_ok=True)

        def squares(images: Sequence[Image]) -> Iterator[tuple[int, bytes]]:
            for image, pixels in _squares(images, preprocessing, workers, limits):
                if isinstance(pixels, PictureError):
                    skipped(f"{image.subject}: {pixels}: skipped")
                else:
                    yield image.id, pixels.tobytes()

        _decode(dataset, size * size * 3, folder, wanted, squares, progress, chunk)
        listed = _read(folder / MANIFEST)
    ids = np.array(listed["image_ids"], dtype=np.int64)
    pixels = np.memmap(folder / PIXELS, np.uint8, mode="r", shape=(len(ids), size, size, 3))
    return PixelCache(ids, pixels, preprocessing)


@dataclass(frozen=True, slots=True)
class _Contents:
    """Which pictures a cache holds; `stamps` are `picture_stamp` of each, before decoding."""

    identity: str
    stamps: list[int]

    def match(self, manifest: dict[str, Any]) -> bool:
        """Tell whether a manifest is of these pictures, except those that are gone (stamp 0)."""
        stamps = manifest.get("stamps", [])
        return (
            manifest.get("identity") == self.identity
            and len(stamps) == len(self.stamps)
            and all(now in (0, then) for now, then in zip(self.stamps, stamps, strict=True))
        )


def _identity(dataset: Dataset, preprocessing: Preprocessing) -> str:
    digest = hashlib.sha256(json.dumps(asdict(preprocessing), sort_keys=True).encode())
    for image in dataset.images:
        digest.update(f"{image.id}\0{image.path}\0".encode())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """Read a manifest: an empty one if it is missing or damaged, so that all is decoded again."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content


def _decode(
    dataset: Dataset,
    picture_bytes: int,
    folder: Path,
    wanted: _Contents,
    squares: Callable[[Sequence[Image]], Iterator[tuple[int, bytes]]],
    progress: Callable[[int, int], None],
    chunk: int,
) -> None:
    """Write all pictures, chunk by chunk, and then the manifest."""
    unfinished = _read(folder / UNFINISHED)
    partial = folder / f"{PIXELS}.partial"
    # A run that was killed at its very end has renamed the pictures already.
    goes_on = wanted.match(unfinished) and partial.is_file()
    ids: list[int] = unfinished["image_ids"] if goes_on else []
    done: int = unfinished["done"] if goes_on else 0
    with partial.open("r+b" if goes_on else "w+b") as file:
        file.truncate(len(ids) * picture_bytes)
        file.seek(0, os.SEEK_END)
        while done < len(dataset):
            images = dataset.images[done : done + chunk]
            for image_id, pixels in squares(images):
                file.write(pixels)
                ids.append(image_id)
            done += len(images)
            file.flush()
            os.fsync(file.fileno())
            state = {**asdict(wanted), "done": done, "image_ids": ids}
            write_atomically(folder / UNFINISHED, json.dumps(state).encode())
            progress(done, len(dataset))
    if not ids:
        raise DatasetError(
            f"no picture of the dataset '{dataset.name}' could be read: "
            f"check the paths in its dataset.json, or import it again"
        )
    (folder / MANIFEST).unlink(missing_ok=True)  # it lists the pictures that these replace
    publish_file(partial, folder / PIXELS)
    write_atomically(folder / MANIFEST, json.dumps({**asdict(wanted), "image_ids": ids}).encode())
    (folder / UNFINISHED).unlink()


def _squares(
    images: Sequence[Image],
    preprocessing: Preprocessing,
    workers: int | None,
    limits: PictureLimits,
) -> Iterator[tuple[Image, NDArray[np.uint8] | PictureError]]:
    def read(image: Image) -> NDArray[np.uint8] | PictureError:
        try:
            picture = open_picture(image.path, limits, preprocessing.resize)
            return np.asarray(_square(picture, preprocessing))
        except PictureError as error:
            return error

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        yield from zip(images, pool.map(read, images), strict=True)


def _square(picture: Pillow.Image, preprocessing: Preprocessing) -> Pillow.Image:
    """Scale all of a picture, or the largest central square of it, in one pass over the pixels."""
    width, height = picture.size
    across, down = width, height
    if preprocessing.framing == "centre":
        across = down = min(width, height)
    left, top = (width - across) / 2, (height - down) / 2
    return picture.resize(
        (preprocessing.resize, preprocessing.resize),
        Pillow.Resampling.BILINEAR,
        box=(left, top, left + across, top + down),
    )
