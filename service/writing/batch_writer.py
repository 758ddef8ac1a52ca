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
from hasse.index.text.sources import SourcedText
from hasse.index.types import DescribedImage, ImageRow, PathRow, Points
from hasse.models.images.inspection import PictureFacts
from hasse.service.errors import ServiceError, no_image
from hasse.service.telemetry.logs import event
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
            return self._remove([write for write in writes if isinstance(write, Deletion)])
        if operation == "add":
            return self._add([write for write in writes if isinstance(write, NewImage)])
        return self._annotate(
            operation, [write for write in writes if isinstance(write, Annotation)]
        )

    def _add(self, images: Sequence[NewImage]) -> list[WriteResult]:
        with self._writing(images) as writer:
            batch = _Uploads(self._index)
            try:
                results = [batch.add(image) for image in images]
                batch.write(writer)
            except Exception:
                self._delete_unused(batch.stored)
                raise
        if batch.has_changes:
            self._on_change()
        ids = [result.image.row.id for result in results if isinstance(result, StoredImage)]
        images_by_id = self._index.catalog.described_images(ids)
        return [
            replace(result, image=images_by_id.get(result.image.row.id, result.image))
            if isinstance(result, StoredImage)
            else result
            for result in results
        ]

    def _remove(self, deletions: Sequence[Deletion]) -> list[WriteResult]:
        image_ids = [deletion.image_id for deletion in deletions]
        with self._writing(deletions) as writer:
            rows = self._index.catalog.images(image_ids)
            files = [row for each in self._index.catalog.paths_of(rows).values() for row in each]
            if rows:
                # Who deletes a picture by its id deletes what was given to it.
                given: dict[str, list[SourcedText]] = {row.sha256: [] for row in rows.values()}
                writer.change(Change(removed_by_name=sorted(rows), given=given))
            for row in (rows[file.image_id]._replace(path=file.path) for file in files):
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
            results: list[WriteResult] = [
                batch.apply(operation, annotation) for annotation in annotations
            ]
            if (change := batch.make_change()) is not None:
                writer.change(change)
        if change is not None:
            self._on_change()
        return results

    @contextmanager
    def _writing(self, writes: Sequence[Write]) -> Iterator[Writer]:
        """Hold the index's lock: no other process assigns ids, or stores or deletes pictures."""
        try:
            with self._index.writing(timeout=_seconds_left(writes)) as writer:
                yield writer
        except NotLoadedError as error:  # the change is durable, and the next refresh loads it
            event("refresh failed", logging.ERROR, error=str(error))

    def _delete_unused(self, stored: Mapping[str, str]) -> None:
        """Delete the stored pictures of a failed change, except those of images of the index."""
        if stored:
            self._index.catalog.settle()
        for path, sha256 in stored.items():
            if not self._is_in_use(path, sha256):
                durable.remove(self._index.folder / path)

    def _delete_file(self, path: str) -> None:
        """Delete the stored picture of a deleted image; if that fails, the next start does."""
        try:
            durable.remove(self._index.folder / path)
        except OSError as error:
            event("picture not removed", logging.WARNING, path=path, error=str(error))

    def _is_in_use(self, path: str, sha256: str) -> bool:
        """Return whether a stored picture is the file of an image of the collection."""
        image = self._index.catalog.image_of(sha256)
        files = [] if image is None else self._index.catalog.paths_of([image.id])[image.id]
        return any(file.path == path for file in files)


class _Uploads:
    """The change that a batch of new images makes, while the index's lock is held.

    Attributes:
        stored: the SHA-256 of each picture that was written, by its path.
    """

    def __init__(self, index: Index) -> None:
        self.stored: dict[str, str] = {}
        self._index = index
        self._draft = Draft(index.catalog)
        self._sent_again: dict[int, ImageRow] = {}  # images that get a file of our own
        self._paths: dict[int, list[PathRow]] = {}  # their files
        self._texts: dict[int, set[str]] = {}
        self._given: dict[str, list[SourcedText]] = {}  # where people gave more, by SHA-256

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._draft.images or self._draft.captions or self._sent_again or self._given)

    def add(self, upload: NewImage) -> StoredImage | ServiceError:
        """Add one image; the result holds the rows known before the commit."""
        existing = self._find_image(upload.facts.sha256)
        if existing is None:
            return self._create(upload)
        if upload.image_id not in (None, existing.id):
            return ServiceError("conflict", f"this picture is already image {existing.id}")
        if existing.id not in (*self._draft.images, *self._sent_again):
            self._keep(existing, upload)
        self._add_captions(existing.id, upload)
        return StoredImage(DescribedImage(existing, [], []), created=False)

    def write(self, writer: Writer) -> None:
        """Write the change, if there is any."""
        if self.has_changes:
            change, rows = self._draft.make_change(), list(self._sent_again.values())
            writer.change(replace(change, rows=rows, paths=self._paths, given=self._given))

    def _create(self, upload: NewImage) -> StoredImage | ServiceError:
        image_id = self._draft.new_image_id() if upload.image_id is None else upload.image_id
        if image_id in self._draft.images or self._index.catalog.images([image_id]):
            return ServiceError("conflict", f"image {image_id} is already another picture")
        name = upload.file_name or f"{image_id}{upload.facts.suffix}"
        path = self._store(upload)
        row = self._draft.add_image(image_id, name, path, upload.split, upload.facts, upload.point)
        self._texts[image_id] = set()
        self._add_captions(image_id, upload)
        return StoredImage(DescribedImage(row, [], []), created=True)

    def _keep(self, image: ImageRow, upload: NewImage) -> None:
        """Store a picture of a folder too: what people sent stays when its file there goes."""
        path = stored_pictures.picture_path(upload.facts.sha256, upload.facts.suffix)
        files = self._index.catalog.paths_of([image.id])[image.id]
        is_known = any(file.path == path for file in files)
        if is_known and (self._index.folder / path).is_file():
            return
        self._store(upload)
        is_there = self._index.path_of(image).is_file()
        self._sent_again[image.id] = image if is_there else image._replace(path=path)
        self._paths[image.id] = files if is_known else [*files, PathRow(image.id, path)]

    def _find_image(self, sha256: str) -> ImageRow | None:
        drafted = (row for row in self._draft.images.values() if row.sha256 == sha256)
        return next(drafted, None) or self._index.catalog.image_of(sha256)

    def _store(self, upload: NewImage) -> str:
        """Write a picture to the index's own folder, and return its path there."""
        sha256, suffix = upload.facts.sha256, upload.facts.suffix
        self.stored[stored_pictures.picture_path(sha256, suffix)] = sha256
        return stored_pictures.store(self._index.folder, upload.picture, sha256, suffix)

    def _add_captions(self, image_id: int, upload: NewImage) -> None:
        """Add the captions that an image lacks."""
        if image_id not in self._texts:
            known = self._index.catalog.captions_of([image_id])[image_id]
            self._texts[image_id] = {row.text for row in known if row.written_by is None}
        texts = self._texts[image_id]
        for text, point in zip(upload.captions, upload.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self._draft.add_caption(image_id, text, point)
        sha256 = upload.facts.sha256
        given = self._given.get(sha256)
        if given is None:
            given = self._index.catalog.given_texts([sha256]).get(sha256, [])
        captions = (SourcedText("caption", text) for text in upload.captions)
        if new := [text for text in captions if text not in given]:
            self._given[sha256] = [*given, *new]


def _seconds_left(writes: Sequence[Write]) -> float:
    """Return how long to wait for a lock, counted from when the oldest write was queued."""
    return max(0.0, min(write.queued_at for write in writes) + LOCK_TIMEOUT - time.monotonic())
