"""Applies a batch of queued writes to the index, all in one generation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from hasse.index import durable
from hasse.index.errors import NotLoadedError
from hasse.index.segments import stored_pictures
from hasse.index.segments.change import Change
from hasse.index.segments.writer import LOCK_TIMEOUT, Writer
from hasse.index.store import Index
from hasse.index.types import DescribedImage, ImageRow, PathRow, Points
from hasse.models.images.inspection import PictureFacts
from hasse.service.errors import ServiceError, no_image
from hasse.service.runtime.logs import event
from hasse.service.writing.annotations import Annotation, AnnotationOperation, Annotations
from hasse.service.writing.draft import Draft

Operation: TypeAlias = Literal["add", "remove"] | AnnotationOperation


@dataclass(frozen=True, slots=True, eq=False)
class NewImage:
    """A picture to add, with its captions, all encoded.

    Attributes:
        file_name: "" to name it by its id.
        image_id: the id that the image must get; None for the next one.
    """

    picture: bytes
    facts: PictureFacts
    file_name: str
    split: str
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


Write: TypeAlias = NewImage | Deletion | Annotation
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
        if operation == "remove":
            return self._remove([one for one in writes if isinstance(one, Deletion)])
        if operation == "add":
            return self._add([one for one in writes if isinstance(one, NewImage)])
        return self._annotate(operation, [one for one in writes if isinstance(one, Annotation)])

    def _add(self, new: Sequence[NewImage]) -> list[WriteResult]:
        with self._writing(new) as writer:
            batch = _Uploads(self._index)
            try:
                results = [batch.add(one) for one in new]
                batch.write(writer)
            except Exception:
                self._withdraw(batch.stored)
                raise
        if batch.changed:
            self._on_change()
        rows = [one.image.row.id for one in results if isinstance(one, StoredImage)]
        known = self._index.catalog.described_images(rows)
        return [
            replace(one, image=known.get(one.image.row.id, one.image))
            if isinstance(one, StoredImage)
            else one
            for one in results
        ]

    def _remove(self, deletions: Sequence[Deletion]) -> list[WriteResult]:
        image_ids = [one.image_id for one in deletions]
        with self._writing(deletions) as writer:
            rows = self._index.catalog.images(image_ids)
            if rows:
                writer.change(Change(removed_by_name=sorted(rows)))
            for row in rows.values():
                if stored_pictures.is_stored(row) and not self._is_in_use(row.path, row.sha256):
                    self._delete_file(row.path)
        if rows:
            self._on_change()
        return [
            None if image_id in rows and image_id not in image_ids[:at] else no_image(image_id)
            for at, image_id in enumerate(image_ids)
        ]

    def _annotate(
        self, operation: AnnotationOperation, annotations: Sequence[Annotation]
    ) -> list[WriteResult]:
        with self._writing(annotations) as writer:
            batch = Annotations(self._index)
            results: list[WriteResult] = [batch.apply(operation, one) for one in annotations]
            if (change := batch.change()) is not None:
                writer.change(change)
        if change is not None:
            self._on_change()
        return results

    @contextmanager
    def _writing(self, writes: Sequence[Write]) -> Iterator[Writer]:
        """Hold the index's lock: no other process takes an id, or stores or deletes a picture."""
        try:
            with self._index.writing(timeout=_seconds_left(writes)) as writer:
                yield writer
        except NotLoadedError as error:  # the change is durable, and the next refresh loads it
            event("refresh failed", logging.ERROR, error=str(error))

    def _withdraw(self, stored: Mapping[str, str]) -> None:
        """Delete the pictures of a change that failed, but those of images that are there."""
        if stored:
            self._index.catalog.settle()
        for path, sha256 in stored.items():
            if not self._is_in_use(path, sha256):
                durable.remove(self._index.folder / path)

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


class _Uploads:
    """The change that a batch of new images makes, while the index's lock is held.

    Attributes:
        stored: the SHA-256 of the pictures that were written for it, by their paths.
    """

    def __init__(self, index: Index) -> None:
        self.stored: dict[str, str] = {}
        self._index = index
        self._draft = Draft(index.catalog)
        self._restored: list[ImageRow] = []  # images whose own files are gone
        self._texts: dict[int, set[str]] = {}

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._draft.images or self._draft.captions or self._restored)

    def add(self, new: NewImage) -> StoredImage | ServiceError:
        """Add one image; the result holds the rows known before the commit."""
        existing = self._existing(new.facts.sha256)
        if existing is None:
            return self._create(new)
        if new.image_id not in (None, existing.id):
            return ServiceError("conflict", f"this picture is already image {existing.id}")
        if not self._index.path_of(existing).is_file():
            self._restored.append(existing._replace(path=self._store(new)))
        self._add_captions(existing.id, new)
        return StoredImage(DescribedImage(existing, [], []), created=False)

    def write(self, writer: Writer) -> None:
        """Make the change, if there is any."""
        if self.changed:
            known = self._index.catalog.paths_of([row.id for row in self._restored])
            paths = {row.id: [*known[row.id], PathRow(row.id, row.path)] for row in self._restored}
            writer.change(replace(self._draft.change(), rows=self._restored, paths=paths))

    def _create(self, new: NewImage) -> StoredImage | ServiceError:
        image_id = self._draft.new_image_id() if new.image_id is None else new.image_id
        if image_id in self._draft.images or self._index.catalog.images([image_id]):
            return ServiceError("conflict", f"image {image_id} is already another picture")
        name = new.file_name or f"{image_id}{new.facts.suffix}"
        path = self._store(new)
        row = self._draft.add_image(image_id, name, path, new.split, new.facts, new.point)
        self._texts[image_id] = set()
        self._add_captions(image_id, new)
        return StoredImage(DescribedImage(row, [], []), created=True)

    def _existing(self, sha256: str) -> ImageRow | None:
        drafted = (row for row in self._draft.images.values() if row.sha256 == sha256)
        return next(drafted, None) or self._index.catalog.image_of(sha256)

    def _store(self, new: NewImage) -> str:
        """Write a picture to the index's own folder, and return its path there."""
        sha256, suffix = new.facts.sha256, new.facts.suffix
        self.stored[stored_pictures.path_of(sha256, suffix)] = sha256
        return stored_pictures.store(self._index.folder, new.picture, sha256, suffix)

    def _add_captions(self, image_id: int, new: NewImage) -> None:
        """Add the captions that an image lacks."""
        if image_id not in self._texts:
            known = self._index.catalog.captions_of([image_id])[image_id]
            self._texts[image_id] = {row.text for row in known if row.written_by is None}
        texts = self._texts[image_id]
        for text, point in zip(new.captions, new.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self._draft.add_caption(image_id, text, point)


def _seconds_left(writes: Sequence[Write]) -> float:
    """Return how long to wait for a lock, counted from when the oldest write was queued."""
    return max(0.0, min(one.queued_at for one in writes) + LOCK_TIMEOUT - time.monotonic())
