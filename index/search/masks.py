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

_CACHE_BYTES = 64 << 20  # of masks and their keys
_ENTRY_BYTES = 600  # overhead of a cached mask
_ID_BYTES = 40  # of an id in a selection


class _Key(NamedTuple):
    segment: str
    selection: Selection
    generation: int  # -1 if the mask is valid in every generation


def _key(live: LiveSegment, selection: Selection, generation: int) -> _Key:
    return _Key(live.segment.record.name, selection, generation)


class Masks:
    """LRU cache of the rows of each segment that a selection excludes.

    Segments never change, nor do the facts that most selections test. So most masks stay valid in
    later generations, which exclude deleted rows anyway. Masks by facts that change, such as paths,
    belong to one generation.
    """

    def __init__(self, folder: Path, capacity: int = _CACHE_BYTES) -> None:
        """Cache up to `capacity` bytes of masks; `folder` is the folder of the index."""
        self._folder = folder
        self._capacity = capacity
        self._size = 0
        self._cached: OrderedDict[_Key, NDArray[np.bool_]] = OrderedDict()
        self._lock = threading.Lock()

    def narrow(
        self, snapshot: Snapshot, catalog: Catalog, kind: Kind, selection: Selection
    ) -> Snapshot:
        """Return the segments of one kind, with all rows excluded that are not selected."""
        segments = snapshot.segments_of(kind)
        generation = snapshot.generation if selection.depends_on_generation else -1
        masks = [self._get(_key(live, selection, generation)) for live in segments]
        missing = [
            live
            for live, mask in zip(segments, masks, strict=True)
            if mask is None and live.live_rows
        ]
        new_masks = self._make(missing, catalog, kind, selection, generation)
        pairs = [
            (live, new_masks.get(live.segment.record.name) if mask is None else mask)
            for live, mask in zip(segments, masks, strict=True)
        ]
        return snapshot.with_segments(
            live.excluding_rows(mask) for live, mask in pairs if mask is not None
        )

    def _make(
        self,
        segments: Sequence[LiveSegment],
        catalog: Catalog,
        kind: Kind,
        selection: Selection,
        generation: int,
    ) -> dict[str, NDArray[np.bool_]]:
        """Make and cache the masks of segments by one query of the catalog."""
        if not segments:
            return {}
        among = np.concatenate([live.segment.ids for live in segments])
        selected_ids = selection.ids(catalog, self._folder, kind, among)
        masks: dict[str, NDArray[np.bool_]] = {}
        for live in segments:
            mask = ~np.isin(live.segment.ids, selected_ids)
            mask.flags.writeable = False
            masks[live.segment.record.name] = mask
            self._put(_key(live, selection, generation), mask)
        return masks

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
                oldest_key, oldest_mask = self._cached.popitem(last=False)
                self._size -= _bytes_of(oldest_key.selection, oldest_mask)


def _bytes_of(selection: Selection, mask: NDArray[np.bool_]) -> int:
    """Estimate the memory of a mask and the selection in its key.

    Ids and texts of a selection may take more memory than the mask, which has one byte for each
    row.
    """
    ids = selection.image_ids or ()
    names = (selection.split, selection.path_prefix, selection.camera)
    texts = (*names, *selection.phrases, *selection.excluded_phrases)
    characters = sum(len(text) for text in texts if text is not None)
    return mask.nbytes + _ENTRY_BYTES + _ID_BYTES * len(ids) + 4 * characters
