"""Captions of the same text are one hit: the caption with the smallest id.

So the k best are k texts, pages are counted in texts, and every proof holds over texts. Texts of a
segment are read once. Which caption stands for a text depends on the generation and on the
selection.
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

_CACHED = 4  # generations, and selections of them
_SAME = 100  # other captions of a text that are named at most


def one_text(caption: str) -> str:
    """Return a caption without differences of case, spacing and the final full stop."""
    return " ".join(caption.casefold().split()).rstrip(" .!")


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """The captions that a search sees, by text.

    Attributes:
        ids: of all captions, those of one text together, in ascending order.
        starts: where the captions of each text begin in `ids`, and their number.
        first: (T,) the smallest id of each text, in ascending order.
        place: (T,) which text that is, as a position in `starts`.
        excluded: by the name of a segment, the rows that a search does not see.
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
        every = np.concatenate([none, *(key[at] for key, at in zip(keys, rows, strict=True))])
        order = np.lexsort((ids, every))
        begins = np.ones(len(order), np.bool_)
        begins[1:] = every[order][1:] != every[order][:-1]
        starts = np.append(np.flatnonzero(begins), len(order))
        first = ids[order][begins]
        place = np.argsort(first)
        excluded = {
            live.segment.record.name: ~np.isin(live.segment.ids, first) for live in segments
        }
        return cls(ids[order], starts, first[place], place, excluded)

    def same(self, caption_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the ids of the other captions of each text, the first of them."""
        if not len(self.first):
            return {}
        wanted = np.array(caption_ids, np.int64)
        at = np.minimum(np.searchsorted(self.first, wanted), len(self.first) - 1)
        at, wanted = at[self.first[at] == wanted], wanted[self.first[at] == wanted]
        starts = self.starts[self.place[at]] + 1
        ends = np.minimum(self.starts[self.place[at] + 1], starts + _SAME)
        each = zip(wanted.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return {id_: self.ids[start:end].tolist() for id_, start, end in each}


class DistinctTexts:
    """Cache of the texts of segments, and of which captions stand for them."""

    def __init__(self) -> None:
        self._keys: dict[str, Ids] = {}
        self._texts: OrderedDict[tuple[int, Selection], _Texts] = OrderedDict()
        self._lock = threading.Lock()

    def narrowed(self, snapshot: Snapshot, catalog: Catalog, selection: Selection) -> Snapshot:
        """Return the captions of a snapshot, already narrowed to a selection, one for each text."""
        segments = snapshot.of("caption")
        with self._lock:
            texts = self._texts.get((snapshot.generation, selection))
        if texts is None:
            texts = _Texts.of(segments, self._keys_of(segments, catalog))
            with self._lock:
                self._texts[(snapshot.generation, selection)] = texts
                while len(self._texts) > _CACHED:
                    self._texts.popitem(last=False)
        hidden = texts.excluded
        return snapshot.only(live.hiding(hidden[live.segment.record.name]) for live in segments)

    def same(
        self, generation: int, selection: Selection, ids: Sequence[int]
    ) -> dict[int, list[int]]:
        """Return the ids of other captions that read as each of these, at most a hundred each."""
        with self._lock:
            texts = self._texts.get((generation, selection))
        if texts is None:  # others were searched since
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
    """Return a number for the text of each caption (R,); one without a text has its own."""
    wanted = sql.select(CAPTIONS.c.id, CAPTIONS.c.text)
    if len(ids) <= IDS_PER_STATEMENT:
        wanted = wanted.where(CAPTIONS.c.id.in_(ids.tolist()))
    else:
        wanted = wanted.where(CAPTIONS.c.id.between(int(ids.min()), int(ids.max())))
    with catalog.reading() as connection:
        texts = {row.id: hash(one_text(row.text)) for row in connection.execute(wanted)}
    return np.fromiter((texts.get(id_, hash((id_,))) for id_ in ids.tolist()), np.int64, len(ids))
