"""Decodes uploaded and stored pictures, a bounded number at a time; caches reduced ones."""

from __future__ import annotations

import asyncio
import hashlib
import os
from asyncio import Semaphore, Task
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, TypeVar
from weakref import finalize

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.images.codecs import DecodedPicture
from hasse.models.images.decoder import Cancellation
from hasse.models.images.decoding import decode
from hasse.models.images.formats import Format, format_of
from hasse.models.images.inspection import InspectedPicture, inspect
from hasse.models.images.limits import PictureError, PictureLimits, Reason
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.regular_file import is_system_error, open_regular
from hasse.service.core.previews import (
    PREVIEW_SIZES,
    SHORTEST,
    PreviewCache,
    PreviewSize,
    ReducedSize,
    ThumbnailCache,
    reduce_picture,
)
from hasse.service.errors import ServiceError
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages

Result = TypeVar("Result")
PictureTask: TypeAlias = Callable[[Cancellation], Result]
Decode: TypeAlias = Callable[[bytes | Path, PictureLimits, int, Cancellation], DecodedPicture]

_REASONS: Mapping[Reason, str] = {
    "not_a_picture": "not_a_picture",
    "missing_package": "not_a_picture",
    "too_many_pixels": "too_many_pixels",
    "damaged": "damaged_picture",
}
QUICK_SECONDS = 0.5  # a picture that takes longer moves to the slow places
_PIECE = 1 << 18  # bytes per read of a file


class PictureReader:
    """Decodes pictures and caches reduced ones. Belongs to one event loop.

    Uploaded and stored pictures have separate places, `decode_workers` each, so that no thumbnail
    waits for uploads. A picture that takes longer than `QUICK_SECONDS` leaves its place. It
    continues in a slow place, or starts again when one is free. Each place holds one decoded
    picture, so memory is bounded by the number of places and the limit on pixels.
    """

    def __init__(
        self,
        settings: Settings,
        preprocessing: Preprocessing,
        previews: PreviewCache,
        decode_: Decode = decode,
    ) -> None:
        self._settings = settings
        self._preprocessing = preprocessing
        self._decode_picture = decode_
        workers = settings.decode_workers
        self._places: dict[type, Semaphore] = {
            source: Semaphore(workers) for source in (bytes, Path)
        }
        self._slow_places = Semaphore((workers + 1) // 2)
        self._pool = ThreadPoolExecutor(3 * workers, thread_name_prefix="decode")
        self._running: set[Cancellation] = set()
        self._waiting = 0
        self._thumbnails = ThumbnailCache(settings.thumbnail_cache_bytes)
        self._previews = previews

    async def pixels(
        self, source: bytes | Path, stages: Stages, preprocessing: Preprocessing | None = None
    ) -> Pixels:
        """Decode a picture into the input of a model: (crops, 3, H, W).

        `preprocessing` is that of the model if it is None.

        Raises:
            ServiceError: `not_a_picture`, `too_many_pixels`, `damaged_picture`; for a stored
                picture `picture_missing`; `busy` if too many wait.
        """
        with stages.measure("decode"):
            prepare = preprocessing or self._preprocessing
            return await self._in_turn(source, lambda stop: self._pixels(source, prepare, stop))

    async def inspected(self, picture: bytes, stages: Stages) -> tuple[InspectedPicture, bytes]:
        """Inspect a picture to add; return it with its JPEG thumbnail.

        Raises:
            ServiceError: as `pixels`.
        """
        with stages.measure("decode"):
            return await self._in_turn(picture, lambda stop: self._inspected(picture, stop))

    async def thumbnail_of_upload(self, picture: bytes) -> bytes:
        """Return the JPEG thumbnail of an uploaded picture; it is not cached.

        Raises:
            ServiceError: as `pixels`.
        """
        return await self._in_turn(picture, lambda stop: self._reduced(picture, "thumbnail", stop))

    async def reduced(self, path: Path, size: ReducedSize, version: str) -> bytes:
        """Return a stored picture at a size, from a cache if possible.

        Raises:
            ServiceError: `picture_missing`, or `busy` if too many wait.
        """
        if size == "thumbnail":
            cached = self._thumbnails.get(version)
        else:
            cached = await asyncio.to_thread(self._previews.get, version)
        if cached is not None:
            return cached
        cache = self._thumbnails if size == "thumbnail" else self._previews

        def make(stop: Cancellation) -> bytes:
            content = self._reduced(path, size, stop)
            cache.put(version, content)
            return content

        return await self._in_turn(path, make)

    def version_of(self, image_id: int, path: Path, size: ReducedSize) -> str:
        """Return the version of an image's picture at a size; raises as `version_of`."""
        if size == "thumbnail":
            return version_of(path, self._settings.thumbnail_size)
        return preview_version(image_id, path, size)

    def sweep_previews(self, index: Index) -> None:
        """Delete previews of images that were removed, or got another picture."""

        def live(version: str, row: ImageRow) -> bool:
            try:
                path = index.path_of(row)
                return any(version == preview_version(row.id, path, size) for size in PREVIEW_SIZES)
            except ServiceError:  # the file is out of reach
                return True

        versions = self._previews.versions()
        ids = {version: version.partition("-")[0] for version in versions}
        rows = index.catalog.images(int(id_) for id_ in ids.values() if id_.isdecimal())
        for version, id_ in ids.items():
            row = rows.get(int(id_)) if id_.isdecimal() else None
            if row is None or not live(version, row):
                self._previews.remove(version)

    def remember(self, image_id: int, path: Path, thumbnail: bytes) -> None:
        """Cache the thumbnail of a picture that was just stored.

        Raises:
            ServiceError: `picture_missing`.
        """
        self._thumbnails.put(self.version_of(image_id, path, "thumbnail"), thumbnail)

    def close(self) -> None:
        """Stop decoding and end the threads."""
        for running in list(self._running):
            running.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _in_turn(self, source: bytes | Path, work: PictureTask[Result]) -> Result:
        if self._waiting >= self._settings.in_flight + self._settings.queued:
            raise ServiceError("busy", "too many pictures wait to be decoded", retry_after=1)
        self._waiting += 1
        try:
            async with self._places[bytes if isinstance(source, bytes) else Path]:
                attempt = asyncio.create_task(self._attempt(work))
                quick = await _finished(attempt)
                restart = not quick and self._slow_places.locked()
                if restart:
                    attempt.cancel()
            if quick:
                return attempt.result()
            async with self._slow_places:
                return await (self._attempt(work) if restart else attempt)
        finally:
            self._waiting -= 1

    async def _attempt(self, work: PictureTask[Result]) -> Result:
        """Run in a thread; cancelling this stops the decoding."""
        cancellation = Cancellation()
        self._running.add(cancellation)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, cancellation)
        finally:
            cancellation.cancel()
            self._running.discard(cancellation)

    def _pixels(self, source: bytes | Path, prepare: Preprocessing, stop: Cancellation) -> Pixels:
        return prepare.apply(self._decode(source, prepare.resize, stop).image)

    def _inspected(self, picture: bytes, stop: Cancellation) -> tuple[InspectedPicture, bytes]:
        decoded = self._decode(picture, self._preprocessing.resize, stop)
        try:
            inspected = inspect(picture, decoded, self._preprocessing)
        except OSError as error:
            raise _open_error(error) from None
        side = self._settings.thumbnail_size
        if max(decoded.image.size) < min(side, max(decoded.size)):  # too small for a thumbnail
            return inspected, self._reduced(picture, "thumbnail", stop)
        return inspected, reduce_picture(decoded, "thumbnail", side)

    def _reduced(self, source: bytes | Path, size: ReducedSize, stop: Cancellation) -> bytes:
        side = self._settings.thumbnail_size
        least = side if size == "thumbnail" else SHORTEST[size]
        return reduce_picture(self._decode(source, least, stop), size, side)

    def _decode(self, source: bytes | Path, at_least: int, stop: Cancellation) -> DecodedPicture:
        try:
            return self._decode_picture(source, self._settings.picture_limits, at_least, stop)
        except OSError as error:
            raise _open_error(error) from None
        except PictureError as error:
            if isinstance(source, Path):
                raise picture_missing() from None
            # Do not send the message of the decoder, in parentheses, to clients.
            message = str(error).partition(" (")[0]
            reason = _REASONS[error.reason]
            raise ServiceError(reason, f"image: {message}", errors=(("image", message),)) from None


async def _finished(attempt: Task[Result]) -> bool:
    """Return whether an attempt ends within `QUICK_SECONDS`; cancel it if the caller leaves."""
    try:
        await asyncio.wait({attempt}, timeout=QUICK_SECONDS)
    except asyncio.CancelledError:
        attempt.cancel()
        raise
    return attempt.done()


def picture_missing() -> ServiceError:
    """Return the error for a stored picture that cannot be read."""
    return ServiceError(
        "picture_missing",
        "the file of this image is no longer where it was when the image was indexed",
    )


def _open_error(error: OSError) -> ServiceError:
    """Return the error for a picture that cannot be opened: `picture_missing` or `busy`."""
    if not is_system_error(error):
        return picture_missing()
    cause = (error.strerror or "").lower()
    return ServiceError("busy", f"no picture can be opened now ({cause})", retry_after=1)


def preview_version(image_id: int, path: Path, size: PreviewSize) -> str:
    """Return the version of a preview, which names its image; raises as `version_of`."""
    return f"{image_id}-{version_of(path, PREVIEW_SIZES.index(size))}"


def version_of(path: Path, *parts: int) -> str:
    """Return a version of a file's contents, from its path, inode, size and times.

    `st_ctime` changes too where a program keeps the size and the time of a file that it changes.

    Raises:
        ServiceError: `picture_missing`.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise _open_error(error) from None
    state = facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    text = f"{path}\0{state}\0{parts}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class OriginalPicture:
    """The open file of a stored picture. The last reference closes it."""

    file: IO[bytes]
    size: int
    format: Format

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes up to the size at opening, and close the file."""
        with self.file:
            left = self.size
            while left > 0 and (piece := self.file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece


def open_original(path: Path) -> OriginalPicture:
    """Open the file of a stored picture.

    Raises:
        ServiceError: `picture_missing` if there is no regular file of a supported format; `busy` if
            the system can open no more files.
    """
    with ExitStack() as opened:
        try:
            file = opened.enter_context(open_regular(path))
            stored_format = format_of(file)
        except OSError as error:
            raise _open_error(error) from None
        if stored_format is None:
            raise picture_missing()
        original = OriginalPicture(file, os.fstat(file.fileno()).st_size, stored_format)
        # A client may disconnect before the first piece, and then `pieces` never closes the file.
        finalize(original, opened.pop_all().close)
    return original
