"""Finds files of a library that show the same picture, and bursts of pictures."""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from hasse.index.kernels.threads import Workers
from hasse.index.search.self_join import self_join
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ProgressCallback
from hasse.index.store import Index
from hasse.index.text.sources import SourcedText
from hasse.index.types import ImageRow, PathRow, Points, VersionRow
from hasse.models.images.decoding import date_in_picture, open_picture
from hasse.models.images.fine_print import SIDE, same_print
from hasse.models.images.formats import FORMATS
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
_THUMBNAILS = 1024  # cached while pairs are compared: 50 MB
# Largest distance of pictures of a burst, as a share of the median distance of two pictures.
_BURST_NEAR = 0.45
_SAMPLE = 1000  # pairs of pictures, to estimate the median

_OTHER = "other picture"  # source of the SHA-256 of a picture that is not the same

Sameness = Literal["bytes", "picture", "burst"]


# Files in other formats are what cameras and scanners write, and most of these are exports.
_EXPORTS = frozenset(known.suffix for known in FORMATS if known.in_browsers) | {
    *(".jpeg", ".jpe", ".jfif", ".mpo")
}
_FACTS = ("caption", "title", "keyword", "added keyword", "description", "place")


@dataclass(frozen=True, slots=True)
class GroupFile:
    """A file of a group. `path` is absolute, `bytes` its size; unknown sides are None.

    `spare` tells whether the first file of the group has all that this one has: its pixels, date,
    place and texts, and an original's format.
    """

    path: str
    image_id: int
    width: int | None
    height: int | None
    bytes: int
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Two files or more that belong together: the largest first, in a burst the earliest first."""

    same: Sameness
    files: list[GroupFile]


class _DisjointSets:
    """Disjoint sets of numbers (union-find). The root of a set is its smallest number."""

    def __init__(self, apart: Mapping[int, Collection[int]] = {}) -> None:
        """Begin with sets of one number; those that are `apart`, by number, are never joined."""
        self._parents: dict[int, int] = {}
        self._apart = {number: set(others) for number, others in apart.items()}
        self._members: dict[int, set[int]] = {}

    def find(self, number: int) -> int:
        """Return the root of the set of a number. A number that was not joined is its own root."""
        root = number
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        while number != root:
            self._parents[number], number = root, self._parents[number]
        return root

    def may_join(self, left: int, right: int) -> bool:
        """Return whether two numbers are in two sets, of which no numbers are apart."""
        root, other = self.find(left), self.find(right)
        members = self._members.get(other, {other})
        return root != other and not any(
            members & self._apart[number]
            for number in self._members.get(root, {root})
            if number in self._apart
        )

    def union(self, left: int, right: int) -> None:
        """Join the sets of two numbers, if they may be joined."""
        if self.may_join(left, right):
            root, joined = sorted((self.find(left), self.find(right)))
            members = self._members.setdefault(root, {root})
            members |= self._members.pop(joined, {joined})
            self._parents[joined] = root

    def groups(self, numbers: Iterable[int]) -> list[list[int]]:
        """Return the given numbers by their set, without numbers that are alone."""
        sets: dict[int, list[int]] = {}
        for number in numbers:
            sets.setdefault(self.find(number), []).append(number)
        return [group for group in sets.values() if len(group) > 1]


def hash_pictures(index: Index, limits: PictureLimits, report: ProgressCallback) -> None:
    """Store the perceptual hash of each readable picture that has none.

    A repeated call continues a stopped one.
    """
    hashed = index.catalog.versions()
    remaining = [row for row in index.catalog.all_rows()[0] if row.id not in hashed]
    with ThreadPoolExecutor(thread_name_prefix="hasse-decode") as pool:
        for start in range(0, len(remaining), _BLOCK):
            block = remaining[start : start + _BLOCK]
            rows: list[VersionRow] = []
            try:
                thumbnails = pool.map(partial(_thumbnail, index, limits), block)
                for at, (row, thumbnail) in enumerate(zip(block, thumbnails, strict=True)):
                    if thumbnail is not None:
                        rows.append(VersionRow(row.id, perceptual_hash(thumbnail).hex(), row.id))
                    report(start + at + 1, len(remaining))
            finally:  # store the hashes so far if the command is stopped
                _store_versions(index, rows, {row.id: row for row in block})


def find_versions(index: Index, limits: PictureLimits, report: ProgressCallback) -> None:
    """Store which of the images that have a hash show the same picture.

    `report` receives the number of compared pairs, and of pairs whose hashes are near.
    """
    rows = index.catalog.versions()
    images = index.catalog.images(rows)
    pictures = _DisjointSets(_different(index, images))
    for row in rows.values():
        pictures.union(row.image_id, row.picture)

    @lru_cache(_THUMBNAILS)
    def thumbnail(image_id: int) -> Image.Image | None:
        return _thumbnail(index, limits, images[image_id]) if image_id in images else None

    near = _near_pairs([row for row in rows.values() if row.hash])
    pairs = [(left, right) for left, right in near if pictures.may_join(left, right)]
    for at, (left, right) in enumerate(pairs):
        if pictures.may_join(left, right):
            first, second = thumbnail(left), thumbnail(right)
            if first is not None and second is not None and same_picture(first, second):
                whole, other = (_picture(index, limits, images[id_], SIDE) for id_ in (left, right))
                if whole is not None and other is not None and same_print(whole, other):
                    pictures.union(left, right)
        report(at + 1, len(pairs))
    updated = [row._replace(picture=pictures.find(row.image_id)) for row in rows.values()]
    _store_versions(index, [row for row in updated if row != rows[row.image_id]], images)


def note_different(index: Index, image_ids: Collection[int]) -> None:
    """Store for good, by their bytes, that images do not show the same picture."""
    images = index.catalog.images(image_ids)
    sha256s = sorted({image.sha256 for image in images.values()} - {""})
    pictures = {row.picture for row in index.catalog.versions().values() if row.image_id in images}
    rows = [row for row in index.catalog.versions().values() if row.picture in pictures]
    known = index.catalog.given_texts(sha256s)
    given: dict[str, list[SourcedText]] = {}
    for sha256 in sha256s:
        others = [SourcedText._make((_OTHER, other)) for other in sha256s if other != sha256]
        given[sha256] = [*known.get(sha256, ()), *others]
    with index.writing() as writer:
        alone = [row._replace(picture=row.image_id) for row in rows]
        writer.change(Change(versions=alone, given=given))
    index.announce()


def _different(index: Index, images: Mapping[int, ImageRow]) -> dict[int, list[int]]:
    """Return the images that do not show the same picture, as people said, by image id."""
    ids: dict[str, list[int]] = {}
    for image in images.values():
        ids.setdefault(image.sha256, []).append(image.id)
    given = index.catalog.given_texts(ids)
    return {
        id_: [other for text in texts if text.source == _OTHER for other in ids.get(text.text, ())]
        for sha256, texts in given.items()
        for id_ in ids[sha256]
    }


def same_files(index: Index) -> list[Group]:
    """Return files of the same bytes, or of the same picture by what `find_versions` stored."""
    rows = index.catalog.versions()
    images = {row.id: row for row in index.catalog.all_rows()[0]}
    pictures, first = _DisjointSets(), dict[Hashable, int]()
    for id_, image in images.items():
        keys: list[Hashable] = [image.sha256] if image.sha256 else []
        keys += [rows[id_].picture] if id_ in rows else []
        for key in keys:
            pictures.union(id_, first.setdefault(key, id_))
    ids_of_picture: dict[int, list[int]] = {}
    for id_ in images:
        ids_of_picture.setdefault(pictures.find(id_), []).append(id_)
    paths = index.catalog.paths_of(images)
    groups = []
    for ids in ids_of_picture.values():
        files = [file for id_ in ids for file in _files(index, images[id_], paths[id_])]
        if len(files) > 1:
            files = _with_spare(index, files)
            bytes_ = {images[file.image_id].sha256 or file.image_id for file in files}
            groups.append(Group("bytes" if len(bytes_) == 1 else "picture", files))
    return groups


def bursts(index: Index, workers: Workers, seconds: float) -> list[Group]:
    """Return groups of pictures taken within `seconds` of each other that show nearly the same.

    Each picture is joined with the next, so a burst may last longer. Only the largest version of a
    picture counts. The distance of two pictures is that of their points.
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
    near, sets = _BURST_NEAR * _median_distance(points), _DisjointSets()
    for pairs in self_join(points, near, workers, times, round(1000 * seconds)):
        for left, right in pairs.tolist():
            sets.union(left, right)
    paths, groups = index.catalog.paths_of(ids), []
    for burst in sets.groups(range(len(ids))):
        files = [
            file for at in burst for file in _files(index, images[ids[at]], paths[ids[at]])[:1]
        ]
        groups += [Group("burst", files)] if len(files) > 1 else []
    return groups


def _store_versions(
    index: Index, rows: Sequence[VersionRow], images: Mapping[int, ImageRow]
) -> None:
    """Store the rows of images whose pictures are still those of `images`."""
    if not rows:
        return
    with index.writing() as writer:
        now = index.catalog.images([row.image_id for row in rows])
        unchanged = [
            row
            for row in rows
            if row.image_id in now and now[row.image_id].sha256 == images[row.image_id].sha256
        ]
        writer.change(Change(versions=unchanged))
    index.announce()


def _near_pairs(rows: Sequence[VersionRow]) -> Iterator[tuple[int, int]]:
    """Yield pairs of images whose hashes are near.

    Images of equal hashes are paired each with the next, and only the first with other hashes.
    """
    ordered = sorted(rows, key=lambda row: (row.hash, row.image_id))
    firsts: list[VersionRow] = []
    for _, equal in groupby(ordered, key=lambda row: row.hash):
        rows = list(equal)
        firsts.append(rows[0])
        for left, right in pairwise(rows):
            yield left.image_id, right.image_id
    points = hash_points([bytes.fromhex(row.hash) for row in firsts])
    workers = Workers()
    try:
        for pairs in self_join(points, NEAR, workers):
            for left, right in pairs.tolist():
                yield firsts[left].image_id, firsts[right].image_id
    finally:
        workers.close()


def _thumbnail(index: Index, limits: PictureLimits, image: ImageRow) -> Image.Image | None:
    picture = _picture(index, limits, image, THUMBNAIL)
    return None if picture is None else thumbnail_of(picture)


def _picture(
    index: Index, limits: PictureLimits, image: ImageRow, at_least: int
) -> Image.Image | None:
    """Return an image's picture, perhaps reduced; None if its file is missing or unreadable."""
    try:
        return open_picture(index.path_of(image), limits, at_least)
    except (PictureError, OSError):
        return None


def _files(index: Index, image: ImageRow, paths: Iterable[PathRow]) -> list[GroupFile]:
    """Return the files of an image that exist and have not changed since they were read.

    A file that is reached by several paths, by links or mounts, is one file. The library's own are
    left out.
    """
    files: dict[tuple[int, int], GroupFile] = {}
    for row in sorted(paths, key=lambda row: _is_link(index, row)):
        path = Path(index.locations.absolute(row.path))
        try:
            facts = path.stat()
        except OSError:
            continue
        is_same = row.size in (None, facts.st_size) and row.modified in (None, facts.st_mtime_ns)
        if is_same and not path.is_relative_to(index.folder):
            file = GroupFile(str(path), image.id, image.width, image.height, facts.st_size)
            files.setdefault((facts.st_dev, facts.st_ino), file)
    return list(files.values())


def _is_link(index: Index, row: PathRow) -> bool:
    path = index.locations.absolute(row.path)
    return os.path.realpath(path) != path


def _with_spare(index: Index, files: list[GroupFile]) -> list[GroupFile]:
    """Return files in order, the one to keep first, and mark those of which it has everything."""
    facts = {file.image_id: _facts(index, file) for file in files}

    def rank(file: GroupFile) -> tuple[int, bool, int, int, str]:
        is_export = Path(file.path).suffix.lower() in _EXPORTS
        return -_pixels(file), is_export, -len(facts[file.image_id]), -file.bytes, file.path

    first, *rest = sorted(files, key=rank)
    is_original = rank(first)[1] is False
    return [
        first,
        *(
            replace(
                file,
                spare=(is_original or rank(file)[1])
                and facts[file.image_id] <= facts[first.image_id],
            )
            for file in rest
        ),
    ]


def _facts(index: Index, file: GroupFile) -> set[tuple[str, object]]:
    """Return what is known of a file: its date, camera, stars, place and human texts."""
    metadata = index.catalog.metadata(file.image_id)
    facts: set[tuple[str, object]] = {
        (source, text) for source, text in metadata.texts if source in _FACTS
    }
    with suppress(OSError):
        if date_in_picture(Path(file.path)) is not None:
            facts.add(("date", ""))
    known = {"camera": metadata.camera, "rating": metadata.rating, "at": metadata.latitude}
    return facts | {(name, "") for name, value in known.items() if value not in ("", None)}


def _pixels(file: GroupFile) -> int:
    return (file.width or 0) * (file.height or 0)


def _median_distance(points: Points) -> float:
    """Return the median distance of two different pictures, estimated from a sample of pairs."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(points), (2, _SAMPLE))
    left, right = points[pairs[:, pairs[0] != pairs[1]]]
    return float(np.median(np.linalg.norm(left - right, axis=1)))
