"""Pictures of strangers and of the collection, decoded in a bounded number of threads."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from PIL import Image
from torch import Tensor

from models.images.preprocessing import PictureError, Preprocessing, open_picture, picture_size
from service.core.stages import Stages
from service.errors import ServiceError
from service.settings import Settings

Result = TypeVar("Result")

MEDIA_TYPES = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PN": "image/png",
    b"GIF": "image/gif",
    b"RIF": "image/webp",
}
SUFFIXES = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
}
_REASONS = {
    "not_a_picture": "not_a_picture",
    "too_many_pixels": "too_many_pixels",
    "damaged": "damaged_picture",
}
THUMBNAIL_MEDIA_TYPE = "image/jpeg"


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A picture that was found good: its facts, its pixels (crops, 3, H, W) and its thumbnail."""

    sha256: str
    suffix: str
    width: int
    height: int
    pixels: Tensor
    thumbnail: bytes


class Pictures:
    """A pool that decodes, and a memory of thumbnails.

    Each thread holds one decoded picture at a time, so that memory is bounded by their number
    and by the limit on pixels.
    """

    def __init__(self, settings: Settings, preprocessing: Preprocessing) -> None:
        self._settings = settings
        self._preprocessing = preprocessing
        self._pool = ThreadPoolExecutor(settings.decode_workers, thread_name_prefix="decode")
        self._room = settings.in_flight + settings.queued
        self._thumbnails = ThumbnailCache(settings.thumbnail_cache_bytes)

    async def pixels(self, source: bytes | Path, stages: Stages) -> Tensor:
        """Decode a picture and make it the input of a model: -> (crops, 3, H, W).

        Raises:
            ServiceError: `not_a_picture`, `too_many_pixels`, `damaged_picture`; for a file of
                the collection `picture_missing`; `busy` when too many wait.
        """
        with stages.measure("decode"):
            return await self._in_pool(lambda: self._pixels(source))

    async def thumbnail(self, path: Path, version: str) -> bytes:
        """Return the JPEG thumbnail of a picture of the collection.

        Raises:
            ServiceError: `picture_missing`, or `busy` when too many wait.
        """
        kept = self._thumbnails.get(version)
        if kept is None:
            kept = await self._in_pool(lambda: self._thumbnail(path))
            self._thumbnails.put(version, kept)
        return kept

    async def inspected(self, picture: bytes, stages: Stages) -> Inspected:
        """Look at a picture that is to be kept: what it is, its input and its thumbnail.

        Raises:
            ServiceError: as `pixels`.
        """
        with stages.measure("decode"):
            return await self._in_pool(lambda: self._inspected(picture))

    def remember(self, version: str, thumbnail: bytes) -> None:
        """Keep a thumbnail that was made before anyone asked for it."""
        self._thumbnails.put(version, thumbnail)

    async def preview(self, picture: bytes) -> bytes:
        """Return the JPEG thumbnail of a picture that a client sent; it is not remembered.

        Raises:
            ServiceError: as `pixels`.
        """
        return await self._in_pool(lambda: self._thumbnail(picture))

    def close(self) -> None:
        """Let the threads finish what they do, and end them."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _in_pool(self, work: Callable[[], Result]) -> Result:
        if self._room <= 0:
            raise ServiceError(
                "busy", "the service decodes as many pictures as it can", retry_after=1
            )
        self._room -= 1
        waiting = [work]

        def begin() -> Result:
            return waiting.pop()()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, begin)
        finally:
            # What a client sent who left goes at once, not when a thread comes to its work.
            waiting.clear()
            self._room += 1

    def _pixels(self, source: bytes | Path) -> Tensor:
        picture = self._open(source, self._preprocessing.resize)
        return self._preprocessing.apply(picture)

    def _inspected(self, picture: bytes) -> Inspected:
        pixels = self._pixels(picture)  # it is one that can be read, or refused here
        width, height = picture_size(picture, self._settings.picture_pixels)
        return Inspected(
            sha256=hashlib.sha256(picture).hexdigest(),
            suffix=SUFFIXES[MEDIA_TYPES[picture[:3]]],
            width=width,
            height=height,
            pixels=pixels,
            thumbnail=self._thumbnail(picture),
        )

    def _thumbnail(self, source: bytes | Path) -> bytes:
        size = self._settings.thumbnail_size
        picture = self._open(source, size)
        picture.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
        out = BytesIO()
        picture.save(out, "JPEG", quality=88, subsampling=0, optimize=True)
        return out.getvalue()

    def _open(self, source: bytes | Path, at_least: int) -> Image.Image:
        try:
            return open_picture(source, self._settings.picture_pixels, at_least)
        except OSError:  # of a file of the collection, which cannot be opened now
            raise picture_missing() from None
        except PictureError as error:
            if isinstance(source, Path):
                raise picture_missing() from None
            # What the decoder itself said stays inside.
            words = str(error).partition(" (")[0]
            raise ServiceError(
                _REASONS[error.reason], f"image: {words}", errors=(("image", words),)
            ) from None


class ThumbnailCache:
    """Thumbnails by version, the least recently asked for forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, version: str) -> bytes | None:
        """Return a thumbnail that is still remembered."""
        with self._lock:
            if version in self._kept:
                self._kept.move_to_end(version)
            return self._kept.get(version)

    def put(self, version: str, thumbnail: bytes) -> None:
        """Remember a thumbnail, within the capacity in bytes."""
        with self._lock:
            self._size += len(thumbnail) - len(self._kept.pop(version, b""))
            self._kept[version] = thumbnail
            while self._size > self._capacity:
                _, dropped = self._kept.popitem(last=False)
                self._size -= len(dropped)


def picture_missing() -> ServiceError:
    """Return the error for a picture of the collection that cannot be read."""
    return ServiceError(
        "picture_missing",
        "the collection knows this image, but its picture is not where it was when it was indexed",
    )


def version_of(path: Path, *parts: int) -> str:
    """Return a name for the present contents of a file, from what the disk says of it.

    Raises:
        ServiceError: `picture_missing`.
    """
    try:
        facts = path.stat()
    except OSError:
        raise picture_missing() from None
    text = f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0{parts}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def read_picture(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a picture of the collection and its media type.

    Raises:
        ServiceError: `picture_missing` when there is no file or it is of no format we read.
    """
    try:
        content = path.read_bytes()
    except OSError:
        raise picture_missing() from None
    media_type = MEDIA_TYPES.get(content[:3])
    if media_type is None:
        raise picture_missing()
    return content, media_type
