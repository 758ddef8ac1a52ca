"""Thumbnails and previews of pictures: their sizes, and their caches, bounded in bytes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from math import isqrt
from pathlib import Path
from typing import Literal, get_args
from uuid import uuid4

from PIL import Image

from hasse.models.images.codecs import DecodedPicture

PreviewSize = Literal["medium", "large"]
ReducedSize = Literal["thumbnail", "medium", "large"]
PREVIEW_SIZES: tuple[PreviewSize, ...] = get_args(PreviewSize)
MEDIA_TYPES: Mapping[ReducedSize, str] = {
    "thumbnail": "image/jpeg",
    "medium": "image/webp",
    "large": "image/webp",
}
FOLDER = "previews"

# Maximum number of pixels. A limit on the sides would shrink panoramas to a thin strip. A picture
# that fits into a screen of 3840 x 2160 has at most as many pixels as the screen.
_PIXELS: Mapping[PreviewSize, int] = {"medium": 1_200_000, "large": 3840 * 2160}
# The shortest side of a preview is at most that of a square.
SHORTEST: Mapping[PreviewSize, int] = {size: isqrt(most) for size, most in _PIXELS.items()}
_LONGEST = 16_383  # side of a WebP
_SUFFIX = ".webp"
# After this share of the capacity is written, a process reads the folder again and deletes old
# files, so that several processes together stay near the capacity.
_SCAN_SHARE = 1 / 16


def preview_size(width: int, height: int, size: PreviewSize) -> tuple[int, int]:
    """Return the width and height of a preview; it is never larger than the picture."""
    scale = min(1.0, (_PIXELS[size] / (width * height)) ** 0.5, _LONGEST / max(width, height))
    return max(1, round(scale * width)), max(1, round(scale * height))


def reduce_picture(picture: DecodedPicture, size: ReducedSize, thumbnail_size: int) -> bytes:
    """Return a picture reduced to a size: a JPEG for a thumbnail, or else a WebP."""
    if size != "thumbnail":
        return encode_preview(picture.image, *preview_size(*picture.size, size))
    limits = thumbnail_size, thumbnail_size
    picture.image.thumbnail(limits, Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = BytesIO()
    picture.image.save(out, "JPEG", quality=88, subsampling=0, optimize=True)
    return out.getvalue()


def encode_preview(picture: Image.Image, width: int, height: int) -> bytes:
    """Return a picture as a WebP of this size, or of its own size if that is smaller.

    The fastest method: the default takes three times as long and saves a sixth of the bytes.
    """
    if picture.width > width:
        picture = picture.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = BytesIO()
    picture.save(out, "WEBP", quality=80, method=0)
    return out.getvalue()


class ThumbnailCache:
    """Least-recently-used cache of thumbnails by version in memory, bounded in bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._cached: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, version: str) -> bytes | None:
        """Return a cached thumbnail, or None."""
        with self._lock:
            if version in self._cached:
                self._cached.move_to_end(version)
            return self._cached.get(version)

    def put(self, version: str, content: bytes) -> None:
        """Cache a thumbnail, and evict the oldest until all fit."""
        with self._lock:
            self._size += len(content) - len(self._cached.pop(version, b""))
            self._cached[version] = content
            while self._size > self._capacity:
                _, evicted = self._cached.popitem(last=False)
                self._size -= len(evicted)


class PreviewCache:
    """Least-recently-used cache of files by version, bounded in bytes.

    Threads and processes may share the folder. If it cannot be written, nothing is cached.
    """

    def __init__(self, folder: Path, capacity: int) -> None:
        self._folder = folder
        self._capacity = capacity
        self._total = 0  # bytes in the folder when it was read
        self._written = capacity  # bytes written since then
        self._lock = threading.Lock()

    def get(self, version: str) -> bytes | None:
        """Return a cached preview, or None if it is missing or incomplete."""
        path = self._path(version)
        try:
            content = path.read_bytes()
            os.utime(path)  # marks it as used
        except OSError:
            return None
        return content if _is_whole(content) else None

    def has(self, version: str) -> bool:
        """Return whether a preview is cached."""
        return self._path(version).exists()

    def versions(self) -> list[str]:
        """Return the versions of all cached previews."""
        return [path.stem for path in self._folder.glob(f"*/*{_SUFFIX}")]

    def remove(self, version: str) -> None:
        """Delete a preview, wherever in the folder it is."""
        for path in self._folder.glob(f"*/{version}{_SUFFIX}"):
            with suppress(OSError):
                path.unlink()

    def is_full(self) -> bool:
        """Return whether the next previews would soon evict cached ones."""
        with self._lock:
            if self._written > _SCAN_SHARE * self._capacity:
                self._total = sum(size for _, size, _ in self._files())
                self._written = 0
            return self._total + self._written > self._capacity * (1 - 2 * _SCAN_SHARE)

    def put(self, version: str, content: bytes) -> None:
        """Cache a preview, and evict the oldest until all fit."""
        if len(content) > self._capacity:
            return
        path = self._path(version)
        partial = path.with_name(f"{path.stem}-{uuid4().hex}.partial")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(content)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        with self._lock:
            self._written += len(content)
            if self._written > _SCAN_SHARE * self._capacity:
                self._evict_oldest()
                self._written = 0

    def _files(self) -> list[tuple[int, int, Path]]:
        """Return the time of last use, the size and the path of each file."""
        files = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):
                facts = path.stat()
                files.append((facts.st_mtime_ns, facts.st_size, path))
        return files

    def _evict_oldest(self) -> None:
        files = self._files()
        self._total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if self._total <= self._capacity * (1 - _SCAN_SHARE):
                break
            with suppress(OSError):
                path.unlink()
            self._total -= size

    def _path(self, version: str) -> Path:
        return self._folder / version[-2:] / (version + _SUFFIX)


def _is_whole(content: bytes) -> bool:
    """Return whether a WebP has the length in its header: a power cut may truncate it."""
    return content[:4] == b"RIFF" and int.from_bytes(content[4:8], "little") + 8 == len(content)
