"""Finds files of a library that hold the same picture, and bursts of pictures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from hasse.index.kernels.threads import Workers
from hasse.index.search.self_join import self_join
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import ImageRow, PathRow, Points, VersionRow
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureError, PictureLimits
from hasse.models.images.perceptual_hash import (
    NEAR,
    THUMBNAIL,
    hash_points,
    perceptual_hash,
    same_picture,
    thumbnail_of,
)

_BLOCK = 512  # pictures whose hashes become durable together
_THUMBNAILS = 1024  # kept while pairs are compared: 50 MB
# Pictures of a burst are nearer than this share of the median distance of two pictures.
_BURST_NEAR = 0.45
_SAMPLE = 1000  # pictures that tell the median

Sameness = Literal["bytes", "picture", "burst"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a group. `path` is absolute, `bytes` its size; sides are None where not known."""

    path: str
    image_id: int
    width: int | None
    height: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Group:
    """Files that belong together, two at least: the largest first, or of a burst the earliest."""

    same: Sameness
    files: list[FoundFile]


class Sets:
    """Disjoint sets of numbers; each is named by its smallest."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def of(self, one: int) -> int:
        """Return the name of the set of a number, at first that number."""
        name = one
        while (parent := self._parents.get(name, name)) != name:
            name = parent
        while one != name:
            self._parents[one], one = name, self._parents[one]
        return name

    def join(self, one: int, other: int) -> None:
        """Make the sets of two numbers one."""
        name, joined = sorted((self.of(one), self.of(other)))
        self._parents[joined] = name

    def several(self, numbers: Iterable[int]) -> list[list[int]]:
        """Return those of some numbers that share a set, two at least, set by set."""
        found: dict[int, list[int]] = {}
        for one in numbers:
            found.setdefault(self.of(one), []).append(one)
        return [each for each in found.values() if len(each) > 1]


def hash_pictures(index: Index, limits: PictureLimits, report: Progress) -> None:
    """Note the hash of each picture that has none yet, and can be read.

    A call that was stopped goes on where it was.
    """
    known = index.catalog.versions()
    left = [row for row in index.catalog.all_rows()[0] if row.id not in known]
    with ThreadPoolExecutor(thread_name_prefix="hasse-decode") as pool:
        for start in range(0, len(left), _BLOCK):
            block = left[start : start + _BLOCK]
            rows: list[VersionRow] = []
            try:
                each = pool.map(partial(_thumbnail, index, limits), block)
                for at, (row, thumbnail) in enumerate(zip(block, each, strict=True)):
                    if thumbnail is not None:
                        rows.append(VersionRow(row.id, perceptual_hash(thumbnail).hex(), row.id))
                    report(start + at + 1, len(left))
            finally:  # what was hashed is kept when it is stopped
                _note(index, rows, {row.id: row for row in block})


def find_versions(index: Index, limits: PictureLimits, report: Progress) -> None:
    """Note which of the images that have a hash show the same picture.

    `report` is called with the pairs of images that may, which are compared.
    """
    rows = index.catalog.versions()
    pictures = Sets()
    for row in rows.values():
        pictures.join(row.image_id, row.picture)
    images = index.catalog.images(rows)

    @lru_cache(_THUMBNAILS)
    def thumbnail(image_id: int) -> Image.Image | None:
        return _thumbnail(index, limits, images[image_id]) if image_id in images else None

    near = _near([row for row in rows.values() if row.hash])
    pairs = [pair for pair in near if pictures.of(pair[0]) != pictures.of(pair[1])]
    for at, (one, other) in enumerate(pairs):
        if pictures.of(one) != pictures.of(other):
            first, second = thumbnail(one), thumbnail(other)
            if first is not None and second is not None and same_picture(first, second):
                pictures.join(one, other)
        report(at + 1, len(pairs))
    found = [row._replace(picture=pictures.of(row.image_id)) for row in rows.values()]
    _note(index, [row for row in found if row != rows[row.image_id]], images)


def same_files(index: Index) -> list[Group]:
    """Return the files that hold the same bytes, or the same picture as far as that is noted."""
    rows = index.catalog.versions()
    images = {row.id: row for row in index.catalog.all_rows()[0]}
    pictures, first = Sets(), dict[Hashable, int]()
    for id_, image in images.items():
        keys: list[Hashable] = [image.sha256] if image.sha256 else []
        keys += [rows[id_].picture] if id_ in rows else []
        for key in keys:
            pictures.join(id_, first.setdefault(key, id_))
    named: dict[int, list[int]] = {}
    for id_ in images:
        named.setdefault(pictures.of(id_), []).append(id_)
    paths = _paths(index)
    groups = []
    for ids in named.values():
        files = [file for id_ in ids for file in _files(index, images[id_], paths.get(id_, ()))]
        if len(files) > 1:
            files.sort(key=lambda file: (-_pixels(file), -file.bytes, file.path))
            bytes_ = {images[file.image_id].sha256 or file.image_id for file in files}
            groups.append(Group("bytes" if len(bytes_) == 1 else "picture", files))
    return groups


def bursts(index: Index, workers: Workers, seconds: float) -> list[Group]:
    """Return pictures taken within some seconds of each other that show nearly the same.

    Each is joined with the next, so a burst may last longer. Of versions of a picture, the largest
    counts. Pictures are as near as the points of the index say.
    """
    rows = [row for row in index.catalog.all_rows()[0] if row.taken is not None]
    versions = {
        file.image_id
        for group in same_files(index)
        for file in group.files
        if file.image_id != group.files[0].image_id
    }
    images = {row.id: row for row in rows if row.id not in versions}
    ids = sorted(images, key=lambda id_: (images[id_].taken or 0, id_))
    stored = index.points("image", ids)
    ids = [id_ for id_ in ids if id_ in stored]
    if len(ids) < 2:
        return []
    points = np.stack([stored[id_] for id_ in ids])
    times = np.array([images[id_].taken for id_ in ids], np.int64)
    near, together = _BURST_NEAR * _median_distance(points), Sets()
    for pairs in self_join(points, near, workers, times, round(1000 * seconds)):
        for one, other in pairs.tolist():
            together.join(one, other)
    paths, groups = _paths(index), []
    for burst in together.several(range(len(ids))):
        each = [_files(index, images[ids[at]], paths.get(ids[at], ()))[:1] for at in burst]
        files = [file for one in each for file in one]
        groups += [Group("burst", files)] if len(files) > 1 else []
    return groups


def _note(index: Index, rows: Sequence[VersionRow], seen: Mapping[int, ImageRow]) -> None:
    """Note rows of images that still are what was seen."""
    if not rows:
        return
    with index.writing() as writer:
        now = index.catalog.images([row.image_id for row in rows])
        same = [
            row
            for row in rows
            if row.image_id in now and now[row.image_id].sha256 == seen[row.image_id].sha256
        ]
        writer.change(Change(versions=same))
    index.announce()


def _near(rows: Sequence[VersionRow]) -> Iterator[tuple[int, int]]:
    """Yield pairs of images whose hashes are near; equal hashes only one after the other."""
    ordered = sorted(rows, key=lambda row: (row.hash, row.image_id))
    firsts: list[VersionRow] = []
    for _, equal in groupby(ordered, key=lambda row: row.hash):
        first, *others = equal
        firsts.append(first)
        for one, other in pairwise([first, *others]):
            yield one.image_id, other.image_id
    points = hash_points([bytes.fromhex(row.hash) for row in firsts])
    workers = Workers()
    try:
        for pairs in self_join(points, NEAR, workers):
            for one, other in pairs.tolist():
                yield firsts[one].image_id, firsts[other].image_id
    finally:
        workers.close()


def _thumbnail(index: Index, limits: PictureLimits, image: ImageRow) -> Image.Image | None:
    """Return the thumbnail of an image, or None if its file is not there or cannot be read."""
    try:
        return thumbnail_of(open_picture(index.path_of(image), limits, THUMBNAIL))
    except (PictureError, OSError):
        return None


def _paths(index: Index) -> dict[int, list[PathRow]]:
    found: dict[int, list[PathRow]] = {}
    for row in index.catalog.all_paths():
        found.setdefault(row.image_id, []).append(row)
    return found


def _files(index: Index, image: ImageRow, paths: Iterable[PathRow]) -> list[FoundFile]:
    """Return the files of an image that are there and have not changed since they were read."""
    found = []
    for row in paths:
        path = Path(index.locations.absolute(row.path))
        try:
            facts = path.stat()
        except OSError:
            continue
        if row.size in (None, facts.st_size) and row.modified in (None, facts.st_mtime_ns):
            size = image.width, image.height
            found.append(FoundFile(str(path), image.id, *size, facts.st_size))
    return found


def _pixels(file: FoundFile) -> int:
    return (file.width or 0) * (file.height or 0)


def _median_distance(points: Points) -> float:
    """Return the median distance of two different pictures, of a sample."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(points), (2, _SAMPLE))
    one, other = points[pairs[:, pairs[0] != pairs[1]]]
    return float(np.median(np.linalg.norm(one - other, axis=1)))
