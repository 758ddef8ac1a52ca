"""Decoded pictures on disk, for training a backbone end to end.

Decoding a JPEG costs more than a small network's pass over it, and every epoch would pay again.
So each picture is decoded once, cut or squeezed to a square of `preprocessing.resize` pixels and
kept as bytes in one memory-mapped file, which the system caches as far as memory goes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from models.datasets import Dataset, DatasetError, Image
from models.files import publish_file, write_atomically
from models.images.preprocessing import PictureError, Preprocessing, open_picture, picture_stamp

PIXELS, MANIFEST, UNFINISHED = "pixels.u8", "pixels.json", "pixels.partial.json"
CHUNK = 512  # pictures decoded between two notes of how far it got


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
    progress: Callable[[int, int], None] | None = None,
    skipped: Callable[[str], None] | None = None,
) -> PixelCache:
    """Decode a dataset's pictures into `folder`, or open what an earlier call left there.

    A killed run continues where it was. What is damaged is decoded again, and so is everything
    where a picture has another size or time of change than before. Pictures that cannot be read
    are left out, each with one line to `skipped`.

    Raises:
        DatasetError: no picture could be read.
    """
    size = preprocessing.resize
    wanted = _Wanted(
        _identity(dataset, preprocessing), [picture_stamp(image.path) for image in dataset.images]
    )
    manifest = folder / MANIFEST
    listed = _read(manifest)
    there = (folder / PIXELS).stat().st_size if (folder / PIXELS).is_file() else 0
    if not wanted.are_in(listed) or there != len(listed["image_ids"]) * size * size * 3:
        folder.mkdir(parents=True, exist_ok=True)
        _decode(
            dataset,
            preprocessing=preprocessing,
            folder=folder,
            wanted=wanted,
            workers=workers,
            progress=progress,
            skipped=skipped,
        )
    ids = np.array(_read(manifest)["image_ids"], dtype=np.int64)
    pixels = np.memmap(folder / PIXELS, np.uint8, mode="r", shape=(len(ids), size, size, 3))
    return PixelCache(ids, pixels, preprocessing)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which pictures, and how; `stamps` are `picture_stamp` of each, before they are decoded."""

    identity: str
    stamps: list[int]

    def are_in(self, note: dict[str, Any]) -> bool:
        """Tell whether a note is of these pictures, as far as they are still there."""
        kept = note.get("stamps", [])
        return (
            note.get("identity") == self.identity
            and len(kept) == len(self.stamps)
            and all(now in (0, then) for now, then in zip(self.stamps, kept, strict=True))
        )


def _identity(dataset: Dataset, preprocessing: Preprocessing) -> str:
    digest = hashlib.sha256(json.dumps(asdict(preprocessing), sort_keys=True).encode())
    for image in dataset.images:
        digest.update(f"{image.id}\0{image.path}\0".encode())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """Read what `_decode` noted; nothing where it is damaged: pictures can be decoded again."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content


def _decode(
    dataset: Dataset,
    *,
    preprocessing: Preprocessing,
    folder: Path,
    wanted: _Wanted,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
    skipped: Callable[[str], None] | None,
) -> None:
    size = preprocessing.resize
    note = _read(folder / UNFINISHED)
    partial = folder / f"{PIXELS}.partial"
    # A run that was killed at its very end has named the pictures already, and left the note.
    goes_on = wanted.are_in(note) and partial.is_file()
    ids: list[int] = note["image_ids"] if goes_on else []
    done: int = note["done"] if goes_on else 0
    with partial.open("r+b" if goes_on else "w+b") as file:
        file.truncate(len(ids) * size * size * 3)
        file.seek(0, os.SEEK_END)
        while done < len(dataset):
            chunk = dataset.images[done : done + CHUNK]
            for image, pixels in _squares(chunk, preprocessing, workers):
                if isinstance(pixels, PictureError):
                    if skipped is not None:
                        skipped(f"image {image.id} ({image.file_name}): {pixels}: skipped")
                    continue
                file.write(pixels.tobytes())
                ids.append(image.id)
            done += len(chunk)
            file.flush()
            os.fsync(file.fileno())
            state = {**asdict(wanted), "done": done, "image_ids": ids}
            write_atomically(folder / UNFINISHED, json.dumps(state).encode())
            if progress is not None:
                progress(done, len(dataset))
    if not ids:
        raise DatasetError(
            f"no picture of the dataset '{dataset.name}' could be read: "
            f"check the paths in its dataset.json, or import it again"
        )
    (folder / MANIFEST).unlink(missing_ok=True)  # of other pictures, whose place these take
    publish_file(partial, folder / PIXELS)
    write_atomically(folder / MANIFEST, json.dumps({**asdict(wanted), "image_ids": ids}).encode())
    (folder / UNFINISHED).unlink()


def _squares(
    images: tuple[Image, ...], preprocessing: Preprocessing, workers: int | None
) -> Iterator[tuple[Image, NDArray[np.uint8] | PictureError]]:
    def read(image: Image) -> NDArray[np.uint8] | PictureError:
        try:
            picture = open_picture(image.path, at_least=preprocessing.resize)
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
