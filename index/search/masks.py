"""Cache of the rows that a selection excludes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.selection import Selection
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Kind

_CACHE_BYTES = 64 << 20  # of masks and of the selections that are their keys
_ENTRY_BYTES = 600  # of a cached mask, beside its rows, its ids and its split
_ID_BYTES = 40


class _Key(NamedTuple):
    segment: str
    selection: Selection
    generation: int  # -1 where the mask is right in every generation


def _key(live: LiveSegment, selection: Selection, generation: int) -> _Key:
    return _Key(live.segment.record.name, selection, generation)


class Masks:
    """Cache of the rows of each segment that a selection excludes; least recently used out first.

    A segment never changes, nor do the facts that most selections test. So their masks stay right
    in later generations: deleted rows are excluded in any case. A file may move, so a mask by
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
        known = [
            (live, made.get(live.segment.record.name) if mask is None else mask)
            for live, mask in zip(segments, masks, strict=True)
        ]
        return snapshot.only(live.hiding(mask) for live, mask in known if mask is not None)

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
