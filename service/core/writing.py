"""Changes of the collection: pictures come with their captions, and go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from index.errors import (
    CatalogUnreachableError,
    DiskFullError,
    HasseIndexError,
    IndexLockedError,
)
from index.store import Index
from service.core.admission import Admission
from service.core.batching import Batcher
from service.core.encoding import Encoder, check_caption
from service.core.pictures import Pictures, version_of
from service.core.serialization import added_image
from service.core.stages import Stages
from service.core.write_queue import Arrival, Change, Lane, Ledger, Outcome, Removal, Stored
from service.errors import ServiceError, invalid, unreachable
from service.http.bodies import Upload
from service.runtime.logs import event
from service.schemas import AddedImage
from service.settings import Settings

_BATCH = 64
_UNCHANGED = "nothing was changed, and what was there is still served"


class Writing:
    """The way into the collection. Its coroutines belong to one event loop.

    Both raise ServiceError: `busy` and `late` under load, `disk_full` and `write_failed` when the
    change could not be made, and then nothing of it was.
    """

    def __init__(
        self,
        index: Index,
        encoder: Encoder,
        pictures: Pictures,
        settings: Settings,
        *,
        on_change: Callable[[], None] = lambda: None,
        on_batch: Callable[[str, int], None] = lambda kind, size: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self._encoder = encoder
        self._pictures = pictures
        self._settings = settings
        self.admission = Admission(settings.writes_in_flight, 0, settings.write_seconds)
        self.batcher: Batcher[Lane, Change, Outcome] = Batcher(
            "writer",
            Ledger(index, on_change).run,
            size=lambda lane: _BATCH,
            # Each wait for the lock is long: who waited together is told together.
            together=(CatalogUnreachableError, IndexLockedError),
            on_batch=on_batch,
            on_death=on_death,
        )

    async def add(self, upload: Upload) -> AddedImage:
        """Add a picture, or captions to one that is there already; durable on return.

        Raises:
            ServiceError: also `invalid`, what `Pictures.pixels` says of a picture, and `conflict`
                when the id is another picture's, or the picture has another id.
        """
        captions = [" ".join(text.split()) for text in upload.captions]
        for at, caption in enumerate(captions):
            check_caption(caption, self._settings, f"caption.{at}")
        captions = list(dict.fromkeys(captions))
        if len(captions) > self._settings.image_captions:
            raise invalid("caption", f"more than {self._settings.image_captions:,} captions")
        stages = Stages()
        async with self.admission.enter(stages):
            inspected = await self._pictures.inspected(upload.picture, stages)
            point = await self._encoder.picture(inspected.pixels, stages)
            stored = await self._submit(
                "add",
                Arrival(
                    picture=upload.picture,
                    sha256=inspected.sha256,
                    suffix=inspected.suffix,
                    file_name=upload.file_name,
                    width=inspected.width,
                    height=inspected.height,
                    split=upload.split,
                    image_id=upload.image_id,
                    point=point,
                    captions=captions,
                    caption_points=await self._encoder.captions(captions, stages)
                    if captions
                    else np.empty((0, len(point)), np.float32),
                ),
            )
        if not isinstance(stored, Stored):
            raise TypeError("the ledger returns what it stored")
        with suppress(ServiceError):  # it may be gone again already
            path = self._index.path_of(stored.row)
            version = version_of(path, self._settings.thumbnail_size)
            self._pictures.remember(version, inspected.thumbnail)
        return added_image(stored.row, stored.captions, stored.created)

    async def remove(self, image_id: int) -> None:
        """Remove an image, its captions, and the picture if the index keeps it.

        Raises:
            ServiceError: also `not_found`.
        """
        async with self.admission.enter(Stages()):
            await self._submit("remove", Removal(image_id))

    async def _submit(self, lane: Lane, item: Change) -> Outcome:
        try:
            outcome = (await self.batcher.submit(lane, item)).result
        except CatalogUnreachableError as error:
            raise unreachable(error) from None
        except DiskFullError:
            event("disk full", logging.ERROR)
            raise ServiceError("disk_full", f"the disk has no room: {_UNCHANGED}") from None
        except IndexLockedError:
            raise ServiceError(
                "write_failed", "another process is writing to the collection", retry_after=5
            ) from None
        except (HasseIndexError, SQLAlchemyError, OSError) as error:
            event("write failed", logging.ERROR, error=repr(error))
            raise ServiceError(
                "write_failed", f"the collection cannot be written: {_UNCHANGED}", retry_after=5
            ) from None
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome
