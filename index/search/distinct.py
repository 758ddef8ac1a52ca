"""Captions with the same text are one hit: the caption with the smallest id.

So the k best are k texts, pages count texts, and every proof holds over texts. The texts of a
segment are read once. Which caption represents a text depends on the generation and the selection.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import CAPTIONS, IDS_PER_STATEMENT
from hasse.index.catalog.selection import Selection
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Ids

_CACHED = 4  # pairs of a generation and a selection
_MAX_SAME = 100  # other captions with the text of a hit


def one_text(caption: str) -> str:
    """Normalize case, spacing and the end of a caption, so that equal texts compare equal."""
    return " ".join(caption.casefold().split()).rstrip(" .!")


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """The live captions of a snapshot, grouped by text.

    Attributes:
        ids: (C,) of all captions: text by text, in ascending order within a text.
        starts: (T + 1,) the start of each text in `ids`, and C.
        first: (T,) the smallest id of each text, in ascending order.
        place: (T,) for each of `first`, the position of its text in `starts`.
        excluded: masks of the rows that are not first, by the name of a segment.
    """

    ids: Ids
    starts: Ids
    first: Ids
    place: Ids
    excluded: dict[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, segments: list[LiveSegment], keys: list[Ids]) -> _Texts:
        """Group the live rows of segments by the key of their text."""
        rows = [live.rows() for live in segments]
        none = np.empty(0, np.int64)
        ids = np.concatenate(
            [none, *(live.segment.ids[at] for live, at in zip(segments, rows, strict=True))]
        )
        all_keys = np.concatenate([none, *(key[at] for key, at in zip(keys, rows, strict=True))])
        order = np.lexsort((ids, all_keys))
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = all_keys[order][1:] != all_keys[order][:-1]
        starts = np.append(np.flatnonzero(is_first), len(order))
        first = ids[order][is_first]
        place = np.argsort(first)
        excluded = {
            live.segment.record.name: ~np.isin(live.segment.ids, first) for live in segments
        }
        return cls(ids[order], starts, first[place], place, excluded)

    def same(self, caption_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return other captions with the text of each of `first`, by id; at most `_MAX_SAME`."""
        if not len(self.first):
            return {}
        ids = np.array(caption_ids, np.int64)
        at = np.minimum(np.searchsorted(self.first, ids), len(self.first) - 1)
        known = self.first[at] == ids
        at, ids = at[known], ids[known]
        starts = self.starts[self.place[at]] + 1
        ends = np.minimum(self.starts[self.place[at] + 1], starts + _MAX_SAME)
        ranges = zip(ids.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return {id_: self.ids[start:end].tolist() for id_, start, end in ranges}


class DistinctTexts:
    """Cache of the texts of segments, and of the captions that represent them."""

    def __init__(self) -> None:
        self._keys: dict[str, Ids] = {}
        self._texts: OrderedDict[tuple[int, Selection], _Texts] = OrderedDict()
        self._lock = threading.Lock()

    def narrow(self, snapshot: Snapshot, catalog: Catalog, selection: Selection) -> Snapshot:
        """Exclude all but one caption of each text; `selection` was already applied."""
        segments = snapshot.segments_of("caption")
        with self._lock:
            texts = self._texts.get((snapshot.generation, selection))
        if texts is None:
            texts = _Texts.of(segments, self._keys_of(segments, catalog))
            with self._lock:
                self._texts[(snapshot.generation, selection)] = texts
                while len(self._texts) > _CACHED:
                    self._texts.popitem(last=False)
        excluded = texts.excluded
        return snapshot.with_segments(
            live.excluding_rows(excluded[live.segment.record.name]) for live in segments
        )

    def same(
        self, generation: int, selection: Selection, ids: Sequence[int]
    ) -> dict[int, list[int]]:
        """Return the ids of other captions with the text of each hit, at most a hundred each."""
        with self._lock:
            texts = self._texts.get((generation, selection))
        if texts is None:  # evicted by other searches
            return {}
        return texts.same(ids)

    def _keys_of(self, segments: list[LiveSegment], catalog: Catalog) -> list[Ids]:
        with self._lock:
            known = self._keys
        names = [live.segment.record.name for live in segments]
        keys = {
            name: known[name] if name in known else _keys(live.segment.ids, catalog)
            for name, live in zip(names, segments, strict=True)
        }
        with self._lock:
            self._keys = known | keys if len(known) < 2 * len(keys) else keys
        return [keys[name] for name in names]


def _keys(ids: Ids, catalog: Catalog) -> Ids:
    """Return the hash of each caption's text (R,); a caption without a text has its own hash."""
    statement = sql.select(CAPTIONS.c.id, CAPTIONS.c.text)
    if len(ids) <= IDS_PER_STATEMENT:
        statement = statement.where(CAPTIONS.c.id.in_(ids.tolist()))
    else:
        statement = statement.where(CAPTIONS.c.id.between(int(ids.min()), int(ids.max())))
    with catalog.reading() as connection:
        hashes = {row.id: hash(one_text(row.text)) for row in connection.execute(statement)}
    return np.fromiter((hashes.get(id_, hash((id_,))) for id_ in ids.tolist()), np.int64, len(ids))
