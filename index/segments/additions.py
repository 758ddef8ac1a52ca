"""Additions that wait together are written together: the disk is waited for once for all of them.

Each is still accepted or refused on its own, and returns when it is durable and searchable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from index.catalog.records import SegmentRecord
from index.catalog.validation import checked, checked_ids
from index.errors import HasseIndexError, IndexLockedError
from index.segments.segment import write_segment
from index.segments.writer import Writer
from index.types import KINDS, CaptionRow, Ids, ImageRow, Kind, ModelIdentity, Points

_ROWS_TOGETHER = 4096  # of images and captions; bounds the memory of one write


@dataclass(slots=True, eq=False)
class Addition:
    """Images and captions with their points, checked on their own; then how it ended."""

    images: Sequence[ImageRow]
    captions: Sequence[CaptionRow]
    ids: dict[Kind, Ids]
    points: dict[Kind, Points]
    generation: int | None = None
    error: BaseException | None = None

    @classmethod
    def of(
        cls,
        model: ModelIdentity,
        images: Sequence[ImageRow],
        image_points: ArrayLike,
        captions: Sequence[CaptionRow],
        caption_points: ArrayLike | None,
    ) -> Addition:
        """Check ids and points, image_points (R, N) and caption_points (S, N).

        Raises:
            BadPointsError, BadRowsError: the message names the row.
        """
        given: dict[Kind, tuple[list[int], ArrayLike | None]] = {
            "image": ([row.id for row in images], image_points),
            "caption": ([row.id for row in captions], caption_points),
        }
        ids: dict[Kind, Ids] = {}
        points: dict[Kind, Points] = {}
        for kind, (numbers, block) in given.items():
            ids[kind] = checked_ids(kind, numbers)
            present = np.empty((0, model.dimension)) if block is None else block
            points[kind] = checked(kind, ids[kind], present, model.dimension, model.score)
        return cls(images, captions, ids, points)

    @property
    def rows(self) -> int:
        """The number of images and captions."""
        return len(self.images) + len(self.captions)

    @property
    def ended(self) -> bool:
        """True when it is in the index, or cannot be."""
        return self.generation is not None or self.error is not None


class Additions:
    """The additions that wait for the one writer of an index."""

    def __init__(
        self, model: ModelIdentity, writing: Callable[[float], AbstractContextManager[Writer]]
    ) -> None:
        self._model = model
        self._writing = writing
        self._waiting: list[Addition] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def add(self, addition: Addition, patience: float) -> int:
        """Return the generation that shows an addition, once the disk has it.

        Other writers are waited for `patience` seconds.

        Raises:
            BadRowsError: an id is taken, or a caption's image is not there.
            DiskFullError, IndexLockedError: nothing was changed.
            NotLoadedError: it is durable; searches see it from the next refresh on.
        """
        deadline = time.monotonic() + patience
        with self._lock:
            self._waiting.append(addition)
        self._await_turn(addition, patience)
        try:
            # Whoever comes first writes for all that have come meanwhile.
            if not addition.ended:
                left = max(0.0, deadline - time.monotonic())
                self._write(self._taken(addition), left)
        finally:
            self._turn.release()
        if addition.generation is None:
            raise addition.error or AssertionError("an addition was forgotten")
        return addition.generation

    def _await_turn(self, addition: Addition, patience: float) -> None:
        if self._turn.acquire(timeout=patience):
            return
        with self._lock:
            if addition in self._waiting:
                self._waiting.remove(addition)
                raise IndexLockedError(
                    "another thread is adding to the index: wait for it to end, and repeat"
                )
        self._turn.acquire()  # whoever has it is writing this too

    def _taken(self, first: Addition) -> list[Addition]:
        with self._lock:
            self._waiting.remove(first)
            taken, rows = [first], first.rows
            for addition in list(self._waiting):
                rows += addition.rows
                if rows <= _ROWS_TOGETHER:
                    self._waiting.remove(addition)
                    taken.append(addition)
            return taken

    def _write(self, additions: list[Addition], patience: float) -> None:
        accepted: list[Addition] = []
        images: list[ImageRow] = []
        captions: list[CaptionRow] = []
        try:
            with self._writing(patience) as writer:
                for addition in additions:
                    try:
                        writer.check_rows(addition.images, addition.captions, (images, captions))
                    except HasseIndexError as error:
                        addition.error = error
                    else:
                        accepted.append(addition)
                        images += addition.images
                        captions += addition.captions
                if accepted:
                    records = self._segments(writer, accepted)
                    generation = writer.commit(records, images, captions)
        except IndexLockedError as error:
            # The others may have more patience.
            additions[0].error = additions[0].error or error
            with self._lock:
                self._waiting[:0] = [addition for addition in additions if not addition.ended]
        except BaseException as error:
            for addition in additions:
                addition.error = addition.error or error
            if not isinstance(error, Exception):
                raise
        else:
            for addition in accepted:
                addition.generation = generation

    def _segments(self, writer: Writer, additions: list[Addition]) -> list[SegmentRecord]:
        """Write one segment of each kind that holds the points of all additions."""
        finished = []
        for kind in KINDS:
            ids = np.concatenate([addition.ids[kind] for addition in additions])
            points = np.concatenate([addition.points[kind] for addition in additions])
            if len(ids):
                folder = writer.workspace()
                record = write_segment(folder, kind, self._model.score, ids, points)
                finished.append((folder, record))
        writer.publish(*finished)
        return [record for _, record in finished]
