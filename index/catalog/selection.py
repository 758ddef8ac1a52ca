"""Searches over part of a collection: by split, by id, by time of addition.

A selection excludes rows from one search. So every kernel, bound and proof takes it as
it takes deletions, and the answer is the exact top k of what was selected.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from index.catalog.catalog import Catalog
from index.catalog.schema import CAPTIONS, IDS_PER_STATEMENT, IMAGES
from index.catalog.validation import fault_of
from index.errors import BadQueryError
from index.segments.snapshot import LiveSegment, Snapshot
from index.types import Ids, Kind

_NUMBERS = 1 << 63  # exclusive upper bound of SQL BIGINT
_CACHE_BYTES = 64 << 20  # of masks and of the selections that are their keys
_ENTRY_BYTES = 600  # of a cached mask, beside its rows, its ids and its split
_ID_BYTES = 40


@dataclass(frozen=True, slots=True)
class Selection:
    """Which images a search is about; a caption is selected with its image.

    What is None selects all. Times are milliseconds since 1970: from `added_from` on, and before
    `added_before`.
    """

    split: str | None = None
    image_ids: tuple[int, ...] | None = None
    added_from: int | None = None
    added_before: int | None = None

    def __post_init__(self) -> None:
        if self.image_ids is not None and len(self.image_ids) > IDS_PER_STATEMENT:
            raise BadQueryError(
                f"{len(self.image_ids):,} ids are selected: name at most {IDS_PER_STATEMENT:,}"
            )
        times = [time for time in (self.added_from, self.added_before) if time is not None]
        numbers = [*(self.image_ids or ()), *times]
        if numbers and not -_NUMBERS <= min(numbers) <= max(numbers) < _NUMBERS:
            raise BadQueryError(
                "an id or a time that is selected is no number of 64 bits: no image has it"
            )
        if self.split is not None and (fault := fault_of(self.split)) is not None:
            raise BadQueryError(f"the name of the split {fault}: no image is of such a split")

    def ids(self, catalog: Catalog, kind: Kind, among: Ids) -> Ids:
        """Return the selected ids of a kind, in no order: all that are `among` these (R,)."""
        table = IMAGES if kind == "image" else CAPTIONS
        # Few rows may have ids that lie far apart, with a whole collection in between.
        few = len(among) <= IDS_PER_STATEMENT
        near = table.c.id.in_(among.tolist()) if few else _between(table, among)
        wanted = sql.select(table.c.id).where(near)
        if kind == "image":
            wanted = wanted.where(*self._clauses())
        else:
            wanted = wanted.join(IMAGES).where(*self._clauses())
        with catalog.reading() as connection:
            return np.fromiter(connection.execute(wanted).scalars(), np.int64)

    def _clauses(self) -> list[sql.ColumnElement[bool]]:
        clauses: list[sql.ColumnElement[bool]] = []
        if self.split is not None:
            clauses.append(IMAGES.c.split == self.split)
        if self.image_ids is not None:
            # Database drivers take no numpy numbers, such as the ids of an answer.
            clauses.append(IMAGES.c.id.in_([int(id_) for id_ in self.image_ids]))
        if self.added_from is not None:
            clauses.append(IMAGES.c.added >= int(self.added_from))
        if self.added_before is not None:
            clauses.append(IMAGES.c.added < int(self.added_before))
        return clauses


def _between(table: sql.Table, ids: Ids) -> sql.ColumnElement[bool]:
    return table.c.id.between(int(ids.min()), int(ids.max()))


class Masks:
    """Cache of the rows of each segment that a selection excludes; least recently used out first.

    Neither a segment nor the catalog's row of an image ever changes. So a mask stays right in
    later generations: deleted rows are excluded in any case.
    """

    def __init__(self, capacity: int = _CACHE_BYTES) -> None:
        self._capacity = capacity
        self._size = 0
        self._cached: OrderedDict[tuple[str, Selection], NDArray[np.bool_]] = OrderedDict()
        self._lock = threading.Lock()

    def narrowed(
        self, snapshot: Snapshot, catalog: Catalog, kind: Kind, selection: Selection
    ) -> Snapshot:
        """Return the segments of one kind with all rows excluded that are not selected."""
        segments = snapshot.of(kind)
        masks = [self._get(live, selection) for live in segments]
        unknown = [
            live for live, mask in zip(segments, masks, strict=True) if mask is None and live.live
        ]
        made = self._made(unknown, catalog, kind, selection)
        narrowed = []
        for live, mask in zip(segments, masks, strict=True):
            known = made.get(live.segment.record.name) if mask is None else mask
            if known is not None and (part := live.hiding(known)).live:
                narrowed.append(part)
        return Snapshot(snapshot.generation, snapshot.model, tuple(narrowed), lease=snapshot.lease)

    def _made(
        self, segments: Sequence[LiveSegment], catalog: Catalog, kind: Kind, selection: Selection
    ) -> dict[str, NDArray[np.bool_]]:
        """Make and cache the masks of segments: one query, however many they are."""
        if not segments:
            return {}
        among = np.concatenate([live.segment.ids for live in segments])
        wanted = selection.ids(catalog, kind, among)
        made: dict[str, NDArray[np.bool_]] = {}
        for live in segments:
            mask = ~np.isin(live.segment.ids, wanted)
            mask.flags.writeable = False
            made[live.segment.record.name] = mask
            self._put(live, selection, mask)
        return made

    def _get(self, live: LiveSegment, selection: Selection) -> NDArray[np.bool_] | None:
        key = (live.segment.record.name, selection)
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
            return self._cached.get(key)

    def _put(self, live: LiveSegment, selection: Selection, mask: NDArray[np.bool_]) -> None:
        key = (live.segment.record.name, selection)
        with self._lock:
            if key not in self._cached:
                self._size += _bytes_of(selection, mask)
            self._cached[key] = mask
            while self._size > self._capacity:
                (_, forgotten), dropped = self._cached.popitem(last=False)
                self._size -= _bytes_of(forgotten, dropped)


def _bytes_of(selection: Selection, mask: NDArray[np.bool_]) -> int:
    """Return about how much memory a mask takes with the selection that is its key.

    A list of ids may take more than the mask, which is a byte for each row of a segment.
    """
    ids, split = selection.image_ids or (), selection.split or ""
    return mask.nbytes + _ENTRY_BYTES + _ID_BYTES * len(ids) + 4 * len(split)
