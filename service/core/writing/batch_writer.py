"""Applies a batch of queued writes to the index, all in one generation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from hasse.index import durable
from hasse.index.catalog.free_ids import free_ids
from hasse.index.catalog.schema import FAR_IDS
from hasse.index.errors import BadRowsError, NotLoadedError
from hasse.index.segments import stored_pictures
from hasse.index.segments.writer import LOCK_TIMEOUT, Addition, Change
from hasse.index.store import Index
from hasse.index.types import KINDS, CaptionRow, DescribedImage, ImageRow, Kind, PathRow, Points
from hasse.service.errors import ServiceError, no_image
from hasse.service.runtime.logs import event

Operation: TypeAlias = Literal["add", "remove"]

# Another process may take a planned id between the plan and the commit.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class NewImage:
    """A picture to add, with its captions, all encoded.

    Attributes:
        row: the facts of the image; the writer gives it its id, and a file name if it has none.
        image_id: the id that the image must get; None for the next one.
    """

    picture: bytes
    row: ImageRow
    image_id: int | None
    point: Points
    captions: Sequence[str]
    caption_points: Points
    queued_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Deletion:
    """An image to delete."""

    image_id: int
    queued_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the collection; `created` is False if its picture was there before."""

    image: DescribedImage
    created: bool


Write: TypeAlias = NewImage | Deletion
WriteResult: TypeAlias = StoredImage | ServiceError | None


class BatchWriter:
    """Applies batches of writes. Belongs to one thread."""

    def __init__(self, index: Index, on_change: Callable[[], None]) -> None:
        self._index = index
        self._on_change = on_change

    def run(self, operation: Operation, writes: Sequence[Write]) -> list[WriteResult]:
        """Apply the writes durably. A write that is refused does not affect the others.

        Raises:
            HasseIndexError, OSError: nothing was changed.
        """
        with stored_pictures.lock(self._index.folder, self._index.catalog, _seconds_left(writes)):
            if operation == "remove":
                return self._remove([one for one in writes if isinstance(one, Deletion)])
            return self._add([one for one in writes if isinstance(one, NewImage)])

    def _add(self, new: Sequence[NewImage]) -> list[WriteResult]:
        for attempt in range(1, _ATTEMPTS + 1):
            plan = _Plan(self._index)
            results = [plan.add(one) for one in new]
            try:
                self._restore(plan)
                self._commit(plan, new)
            except BadRowsError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        stored = [result for result in results if isinstance(result, StoredImage)]
        known = self._index.catalog.described_images([one.image.row.id for one in stored])
        return [
            replace(one, image=known.get(one.image.row.id, one.image))
            if isinstance(one, StoredImage)
            else one
            for one in results
        ]

    def _restore(self, plan: _Plan) -> None:
        """Store the pictures of images whose own files are gone."""
        if not plan.restored:
            return
        rows: list[ImageRow] = []
        paths: dict[int, list[PathRow]] = {}
        for row, one in plan.restored:
            path = self._store(one)
            rows.append(row._replace(path=path))
            known = self._index.catalog.paths_of([row.id])[row.id]
            paths[row.id] = [*known, PathRow(row.id, path)]
        model = self._index.model
        nothing = np.empty((0, model.dimension), np.float32)
        addition = Addition.checked(model, [], nothing, [], nothing)
        with _logging_not_loaded():
            self._index.change(
                Change(addition, rows=rows, paths=paths),
                timeout=_seconds_left([one for _, one in plan.restored]),
            )
        self._on_change()

    def _store(self, new: NewImage) -> str:
        suffix = Path(new.row.path).suffix
        return stored_pictures.store(self._index.folder, new.picture, new.row.sha256, suffix)

    def _commit(self, plan: _Plan, new: Sequence[NewImage]) -> None:
        if not plan.images and not plan.captions:
            return
        written: dict[str, str] = {}  # SHA-256 by path
        try:
            for one in plan.new:
                path = self._store(one)
                written[path] = one.row.sha256
            dimension = self._index.model.dimension
            with _logging_not_loaded():
                self._index.add(
                    plan.images,
                    np.reshape([one.point for one in plan.new], (-1, dimension)),
                    plan.captions,
                    np.reshape(plan.caption_points, (-1, dimension)),
                    timeout=_seconds_left(new),
                )
        except Exception:
            if written:
                self._index.catalog.settle()
            for path, sha256 in written.items():
                # The file may belong to an image that was added earlier.
                if not self._is_in_use(path, sha256):
                    durable.remove(self._index.folder / path)
            raise
        self._on_change()

    def _remove(self, deletions: Sequence[Deletion]) -> list[WriteResult]:
        image_ids = [one.image_id for one in deletions]
        rows = self._index.catalog.images(image_ids)
        if rows:
            with _logging_not_loaded():
                self._index.remove(sorted(rows), timeout=_seconds_left(deletions))
            for row in rows.values():
                if stored_pictures.is_stored(row) and not self._is_in_use(row.path, row.sha256):
                    self._delete_file(row.path)
            self._on_change()
        return [
            None if image_id in rows and image_id not in image_ids[:at] else no_image(image_id)
            for at, image_id in enumerate(image_ids)
        ]

    def _delete_file(self, path: str) -> None:
        """Delete the stored picture of a deleted image, or leave it to the next start."""
        try:
            durable.remove(self._index.folder / path)
        except OSError as error:
            event("picture not removed", logging.WARNING, path=path, error=str(error))

    def _is_in_use(self, path: str, sha256: str) -> bool:
        """Tell whether a stored picture is the file of an image of the collection."""
        same = self._index.catalog.image_of(sha256)
        return same is not None and same.path == path


@dataclass(slots=True)
class _Plan:
    """The rows that a batch of new images will add."""

    index: Index
    images: list[ImageRow] = field(default_factory=list)
    new: list[NewImage] = field(default_factory=list)
    captions: list[CaptionRow] = field(default_factory=list)
    caption_points: list[Points] = field(default_factory=list)
    restored: list[tuple[ImageRow, NewImage]] = field(default_factory=list)
    _largest: dict[Kind, int] = field(default_factory=dict)
    _ids: dict[Kind, Iterator[int]] = field(default_factory=dict)
    _texts: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._largest.update(self.index.catalog.largest_ids())
        self._ids = {kind: self._free(kind) for kind in KINDS}

    def add(self, new: NewImage) -> StoredImage | ServiceError:
        """Plan one image; the result holds the rows known before the commit."""
        existing = self._existing(new.row.sha256)
        if existing is not None:
            if new.image_id not in (None, existing.id):
                return ServiceError("conflict", f"this picture is already image {existing.id}")
            if self._is_gone(existing):
                self.restored.append((existing, new))
            self._add_captions(existing.id, new)
            return StoredImage(DescribedImage(existing, [], []), created=False)
        image_id = new.image_id
        if image_id is None:
            image_id = next(id_ for id_ in self._ids["image"] if not self._is_taken(id_))
        elif self._is_taken(image_id):
            return ServiceError("conflict", f"image {image_id} is already another picture")
        elif self._largest["image"] < image_id < FAR_IDS:
            self._largest["image"] = image_id
            self._ids["image"] = self._free("image")
        self._texts[image_id] = set()
        self._add_captions(image_id, new)
        name = new.row.file_name or f"{image_id}{Path(new.row.path).suffix}"
        row = new.row._replace(id=image_id, file_name=name)
        self.images.append(row)
        self.new.append(new)
        return StoredImage(DescribedImage(row, [], []), created=True)

    def _existing(self, sha256: str) -> ImageRow | None:
        planned = next((row for row in self.images if row.sha256 == sha256), None)
        return planned or self.index.catalog.image_of(sha256)

    def _is_taken(self, image_id: int) -> bool:
        planned = any(row.id == image_id for row in self.images)
        return planned or bool(self.index.catalog.images([image_id]))

    def _free(self, kind: Kind) -> Iterator[int]:
        return free_ids(self.index.catalog, kind, self._largest[kind])

    def _is_gone(self, row: ImageRow) -> bool:
        """Tell whether an image of the index has lost the file that is read."""
        planned = any(image.id == row.id for image in self.images)
        return not planned and not self.index.path_of(row).is_file()

    def _add_captions(self, image_id: int, new: NewImage) -> None:
        """Plan the captions that an image lacks."""
        if image_id not in self._texts:
            known = self.index.catalog.captions_of([image_id])[image_id]
            self._texts[image_id] = {row.text for row in known if row.written_by is None}
        texts = self._texts[image_id]
        for text, point in zip(new.captions, new.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self.captions.append(CaptionRow(next(self._ids["caption"]), image_id, text))
                self.caption_points.append(point)


@contextmanager
def _logging_not_loaded() -> Iterator[None]:
    """Log `NotLoadedError`: the change is durable, and the next refresh loads it."""
    try:
        yield
    except NotLoadedError as error:
        event("refresh failed", logging.ERROR, error=str(error))


def _seconds_left(writes: Sequence[Write]) -> float:
    """Return how long to wait for a lock, counted from when the oldest write was queued."""
    return max(0.0, min(one.queued_at for one in writes) + LOCK_TIMEOUT - time.monotonic())
