"""Queue of writes to the collection: add, annotate and remove images."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hasse.index.errors import CatalogUnreachableError, IndexLockedError
from hasse.index.store import Index
from hasse.service.core.admission import Admission
from hasse.service.core.batching import Batcher
from hasse.service.core.encoding import EncodingQueue, check_stored_caption
from hasse.service.core.pictures import PictureReader
from hasse.service.core.records import added_image
from hasse.service.core.searching import ShownPaths
from hasse.service.errors import ServiceError, invalid, writing_catalog
from hasse.service.schemas import AddedImage, AnnotationFields, UploadFields
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages
from hasse.service.writing.annotations import Annotation, AnnotationOperation
from hasse.service.writing.batch_writer import (
    BatchWriter,
    Deletion,
    NewImage,
    Operation,
    StoredImage,
    Write,
    WriteResult,
)

if TYPE_CHECKING:
    from prometheus_client import Histogram

_BATCH = 64


class WriteQueue:
    """Adds, annotates and removes images, batched by one writer thread, on one event loop.

    All methods raise ServiceError: `busy` and `late` under load; `disk_full` and `write_failed`
    if the write failed, and then nothing of it is stored.
    """

    def __init__(
        self,
        index: Index,
        encoder: EncodingQueue,
        pictures: PictureReader,
        settings: Settings,
        paths: ShownPaths,
        *,
        on_change: Callable[[], None] = lambda: None,
        batch_size: Histogram | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self._encoder = encoder
        self._pictures = pictures
        self._settings = settings
        self._paths = paths
        self.admission = Admission(settings.writes_in_flight, 0, settings.write_seconds)
        self._batch_size = batch_size
        self._writer = BatchWriter(index, on_change)
        self.batcher: Batcher[Operation, Write, WriteResult] = Batcher(
            "writer",
            self._run,
            size=lambda operation: _BATCH,
            # The batch has already waited the full time for a lock, so do not retry item by item.
            batch_errors=(CatalogUnreachableError, IndexLockedError),
            on_death=on_death,
        )

    async def add(self, picture: bytes, file_name: str, fields: UploadFields) -> AddedImage:
        """Add a picture, or add captions to a stored one; durable on return.

        Without an id the picture gets the next free id.

        Raises:
            ServiceError: also `invalid`, what `PictureReader.pixels` raises, and `conflict` if
                the id belongs to another picture, or the picture has another id.
        """
        captions = self._texts(fields.caption, "caption")
        if len(captions) > self._settings.image_captions:
            raise invalid("caption", f"more than {self._settings.image_captions:,} captions")
        stages = Stages()
        async with self.admission.enter(stages):
            inspected, thumbnail = await self._pictures.inspected(picture, stages)
            with writing_catalog():
                captions = await asyncio.to_thread(
                    self._with_given, inspected.facts.sha256, captions
                )
            stored = await self._submit(
                "add",
                NewImage(
                    picture,
                    inspected.facts,
                    file_name,
                    fields.split,
                    fields.image_id,
                    await self._encoder.encode(inspected.pixels, stages),
                    captions,
                    await self._encoder.captions(captions, stages),
                ),
            )
        if not isinstance(stored, StoredImage):
            raise TypeError("the writer returns what it stored")
        with suppress(ServiceError):  # it may have been removed again
            row = stored.image.row
            self._pictures.remember(row.id, self._index.path_of(row), thumbnail)
        return added_image(stored.image, self._paths, created=stored.created)

    async def annotate(self, fields: AnnotationFields) -> None:
        """Add captions and keywords to images that lack them; durable on return.

        Raises:
            ServiceError: also `invalid`, and `not_found` if one of the images does not exist.
        """
        await self._annotate("annotate", fields)

    async def unannotate(self, fields: AnnotationFields) -> None:
        """Remove human captions, and keywords that users added here, from images.

        Raises:
            ServiceError: as `annotate`.
        """
        await self._annotate("unannotate", fields)

    async def remove(self, image_id: int) -> None:
        """Remove an image, its captions, and its picture if the index stores it.

        Raises:
            ServiceError: also `not_found`.
        """
        async with self.admission.enter(Stages()):
            await self._submit("remove", Deletion(image_id))

    def _with_given(self, sha256: str, captions: Sequence[str]) -> list[str]:
        """Return captions with those that people gave to the same picture before."""
        given = self._index.catalog.given_texts([sha256]).get(sha256, ())
        texts = [text.text for text in given if text.source == "caption"]
        return list(dict.fromkeys([*captions, *texts]))

    async def _annotate(self, operation: AnnotationOperation, fields: AnnotationFields) -> None:
        captions = self._texts(fields.captions, "captions")
        keywords = self._texts(fields.keywords, "keywords")
        image_ids, stages = list(dict.fromkeys(fields.image_ids)), Stages()
        async with self.admission.enter(stages):
            added = captions if operation == "annotate" else []  # what is removed needs no points
            points = await self._encoder.captions(added, stages)
            await self._submit(operation, Annotation(image_ids, captions, keywords, points))

    def _texts(self, texts: Sequence[str], field: str) -> list[str]:
        """Return texts with normalized spaces, each once; raises ServiceError `invalid`."""
        normalized = [" ".join(text.split()) for text in texts]
        for at, text in enumerate(normalized):
            check_stored_caption(text, self._settings, f"{field}.{at}")
        return list(dict.fromkeys(normalized))

    def _run(self, operation: Operation, writes: Sequence[Write]) -> list[WriteResult]:
        if self._batch_size is not None:
            self._batch_size.labels(operation).observe(len(writes))
        return self._writer.run(operation, writes)

    async def _submit(self, operation: Operation, write: Write) -> WriteResult:
        with writing_catalog():
            result = (await self.batcher.submit(operation, write)).result
        if isinstance(result, ServiceError):
            raise result
        return result
