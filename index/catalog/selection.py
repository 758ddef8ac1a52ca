"""Searches over part of a collection: by split, id, folder, time of addition, date of the picture.

A selection excludes rows from one search. So every kernel, bound and proof takes it as
it takes deletions, and the answer is the exact top k of what was selected.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.places import lies_below, shown_below
from hasse.index.catalog.schema import CAPTIONS, IDS_PER_STATEMENT, IMAGES, WRITTEN
from hasse.index.catalog.validation import fault_of
from hasse.index.errors import BadQueryError
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids, Kind

_NUMBERS = 1 << 63  # exclusive upper bound of SQL BIGINT
_CACHE_BYTES = 64 << 20  # of masks and of the selections that are their keys
_ENTRY_BYTES = 600  # of a cached mask, beside its rows, its ids and its split
_ID_BYTES = 40


@dataclass(frozen=True, slots=True)
class Selection:
    """Which images a search is about; a caption is selected with its image.

    What is None selects all. Times are milliseconds since 1970: from `..._from` on, and before
    `..._before`. `path_prefix` is what a path begins with: the path relative to the followed folder
    that the file lies in (the file name, where it lies in none), or the absolute path, with
    `absolute_paths`. A picture without a date is in no range of dates. Of captions that read the
    same, `distinct_texts` selects one; see `index.search.distinct`. Of captions that a model wrote,
    `written` selects all, none, or with None all where there are none of people.
    """

    split: str | None = None
    image_ids: tuple[int, ...] | None = None
    added_from: int | None = None
    added_before: int | None = None
    taken_from: int | None = None
    taken_before: int | None = None
    path_prefix: str | None = None
    absolute_paths: bool = False
    distinct_texts: bool = False
    written: bool | None = True

    def __post_init__(self) -> None:
        if self.image_ids is not None and len(self.image_ids) > IDS_PER_STATEMENT:
            raise BadQueryError(
                f"{len(self.image_ids):,} ids are selected: name at most {IDS_PER_STATEMENT:,}"
            )
        bounds = (self.added_from, self.added_before, self.taken_from, self.taken_before)
        times = [time for time in bounds if time is not None]
        numbers = [*(self.image_ids or ()), *times]
        if numbers and not -_NUMBERS <= min(numbers) <= max(numbers) < _NUMBERS:
            raise BadQueryError(
                "an id or a time that is selected is no number of 64 bits: no image has it"
            )
        if self.split is not None and (fault := fault_of(self.split)) is not None:
            raise BadQueryError(f"the name of the split {fault}: no image is of such a split")
        if self.path_prefix is not None and (fault := fault_of(self.path_prefix)) is not None:
            raise BadQueryError(f"the beginning of paths {fault}: no file has such a path")

    @property
    def depends_on_generation(self) -> bool:
        """Whether rows may be selected in one generation and not in another: files move."""
        return self.path_prefix is not None

    def ids(self, catalog: Catalog, folder: Path, kind: Kind, among: Ids) -> Ids:
        """Return the selected ids of a kind, in no order: all that are `among` these (R,).

        `folder` is that of the index.
        """
        table = IMAGES if kind == "image" else CAPTIONS
        # Few rows may have ids that lie far apart, with a whole collection in between.
        few = len(among) <= IDS_PER_STATEMENT
        near = table.c.id.in_(among.tolist()) if few else _between(table, among)
        wanted = sql.select(table.c.id).where(near)
        if kind == "caption":
            wanted = wanted.join(IMAGES)
            if not self.written:
                wanted = wanted.where(CAPTIONS.c.id.not_in(sql.select(WRITTEN.c.caption_id)))
        wanted = wanted.where(*self._clauses())
        with catalog.reading() as connection:
            if self.path_prefix is not None:
                if self.absolute_paths:
                    wanted = wanted.where(lies_below(folder, self.path_prefix))
                else:
                    wanted = wanted.where(shown_below(connection, folder, self.path_prefix))
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
        if self.taken_from is not None:
            clauses.append(IMAGES.c.taken >= int(self.taken_from))
        if self.taken_before is not None:
            clauses.append(IMAGES.c.taken < int(self.taken_before))
        return clauses


def _between(table: sql.Table, ids: Ids) -> sql.ColumnElement[bool]:
    return table.c.id.between(int(ids.min()), int(ids.max()))


class _Key(NamedTuple):
    segment: str
    selection: Selection
    generation: int  # -1 where the mask is right in every generation


def _key(live: LiveSegment, selection: Selection, generation: int) -> _Key:
    return _Key(live.segment.record.name, selection, generation)


class Masks:
    """Cache of the rows of each segment that a selection excludes; least recently used out first.

    Neither a segment nor what most selections ask of an image ever changes. So their masks stay
    right in later generations: deleted rows are excluded in any case. A file may move, so a mask by
    paths belongs to one generation.
    """

    def __init__(self, folder: Path, capacity: int = _CACHE_BYTES) -> None:
        """Cache the masks of the index in a folder, up to `capacity` bytes."""
        self._folder = folder
        self._capacity = capacity
        self._size = 0
        self._cached: OrderedDict[_Key, NDArray[np.bool_]] = OrderedDict()
        self._lock = threading.Lock()

    def narrowed(
        self, snapshot: Snapshot, catalog: Catalog, kind: Kind, selection: Selection
    ) -> Snapshot:
        """Return the segments of one kind with all rows excluded that are not selected."""
        segments = snapshot.of(kind)
        generation = snapshot.generation if selection.depends_on_generation else -1
        masks = [self._get(_key(live, selection, generation)) for live in segments]
        unknown = [
            live for live, mask in zip(segments, masks, strict=True) if mask is None and live.live
        ]
        made = self._made(unknown, catalog, kind, selection, generation)
        narrowed = []
        for live, mask in zip(segments, masks, strict=True):
            known = made.get(live.segment.record.name) if mask is None else mask
            if known is not None and (part := live.hiding(known)).live:
                narrowed.append(part)
        return Snapshot(snapshot.generation, snapshot.model, tuple(narrowed), lease=snapshot.lease)

    def _made(
        self,
        segments: Sequence[LiveSegment],
        catalog: Catalog,
        kind: Kind,
        selection: Selection,
        generation: int,
    ) -> dict[str, NDArray[np.bool_]]:
        """Make and cache the masks of segments: one query, however many they are."""
        if not segments:
            return {}
        among = np.concatenate([live.segment.ids for live in segments])
        wanted = selection.ids(catalog, self._folder, kind, among)
        made: dict[str, NDArray[np.bool_]] = {}
        for live in segments:
            mask = ~np.isin(live.segment.ids, wanted)
            mask.flags.writeable = False
            made[live.segment.record.name] = mask
            self._put(_key(live, selection, generation), mask)
        return made

    def _get(self, key: _Key) -> NDArray[np.bool_] | None:
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
            return self._cached.get(key)

    def _put(self, key: _Key, mask: NDArray[np.bool_]) -> None:
        with self._lock:
            if key not in self._cached:
                self._size += _bytes_of(key.selection, mask)
            self._cached[key] = mask
            while self._size > self._capacity:
                forgotten, dropped = self._cached.popitem(last=False)
                self._size -= _bytes_of(forgotten.selection, dropped)


def _bytes_of(selection: Selection, mask: NDArray[np.bool_]) -> int:
    """Return about how much memory a mask takes with the selection that is its key.

    A list of ids may take more than the mask, which is a byte for each row of a segment.
    """
    ids, texts = selection.image_ids or (), (selection.split, selection.path_prefix)
    characters = sum(len(text) for text in texts if text is not None)
    return mask.nbytes + _ENTRY_BYTES + _ID_BYTES * len(ids) + 4 * characters
