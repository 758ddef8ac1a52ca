"""One generation as searches see it: immutable, so that a search needs no lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.segments.leases import Lease
from hasse.index.segments.segment import Segment
from hasse.index.types import Ids, Kind, ModelIdentity, Points

_ALL_LIVE = np.zeros(0, np.bool_)
_ALL_LIVE.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveSegment:
    """A segment as one generation sees it. `excluded` is (R,), or (0,) when every row lives."""

    segment: Segment
    excluded: NDArray[np.bool_]
    live: int

    @classmethod
    def whole(cls, segment: Segment) -> LiveSegment:
        """Return a segment of which every row lives."""
        return cls(segment, _ALL_LIVE, segment.rows)

    def rows(self) -> Ids:
        """Return the rows that live, in ascending order."""
        return (
            np.flatnonzero(~self.excluded) if len(self.excluded) else np.arange(self.segment.rows)
        )

    def without(self, ids: Ids) -> LiveSegment:
        """Return the segment with the rows of these ids excluded as well."""
        rows = np.flatnonzero(np.isin(self.segment.ids, ids)) if len(ids) else _ALL_LIVE
        if not len(rows):
            return self
        excluded = (
            self.excluded.copy() if len(self.excluded) else np.zeros(self.segment.rows, np.bool_)
        )
        excluded[rows] = True
        return self._with(excluded)

    def hiding(self, hidden: NDArray[np.bool_]) -> LiveSegment:
        """Return the segment with the rows that are True in `hidden` (R,) excluded as well."""
        return self._with(self.excluded | hidden if len(self.excluded) else hidden)

    def _with(self, excluded: NDArray[np.bool_]) -> LiveSegment:
        excluded.flags.writeable = False
        return LiveSegment(
            self.segment, excluded, self.segment.rows - int(np.count_nonzero(excluded))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything one generation consists of.

    `segments` are those on the disk, `together` the same rows as they are searched, where that
    is not segment by segment. The `lease` keeps the folders where they are.
    """

    generation: int
    model: ModelIdentity
    segments: tuple[LiveSegment, ...]
    together: tuple[LiveSegment, ...] | None = None
    lease: Lease | None = None

    def only(self, segments: Iterable[LiveSegment]) -> Snapshot:
        """Return the generation with these segments alone, as far as rows of them live."""
        living = tuple(live for live in segments if live.live)
        return Snapshot(self.generation, self.model, living, lease=self.lease)

    def of(self, kind: Kind) -> list[LiveSegment]:
        """Return the segments of one kind as they are searched."""
        searched = self.segments if self.together is None else self.together
        return [live for live in searched if live.segment.record.kind == kind]

    def ids(self, kind: Kind) -> Ids:
        """Return the ids of the rows of one kind that live, in no order."""
        living = [live.segment.ids[live.rows()] for live in self.of(kind)]
        return np.concatenate([np.empty(0, np.int64), *living])

    def points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        """Return the stored points (N,) of those of `ids` that there are, by id."""
        by_id: dict[int, Points] = {}
        for rows_of in (_bisected, _compared):
            wanted = np.array([id_ for id_ in ids if id_ not in by_id], np.int64)
            for live in self.of(kind) if len(wanted) else ():
                rows = rows_of(live.segment.ids, wanted)
                if len(live.excluded):
                    rows = rows[~live.excluded[rows]]
                found = np.asarray(live.segment.points)[rows]
                by_id.update(zip(live.segment.ids[rows].tolist(), found, strict=True))
        return by_id

    def live(self, kind: Kind) -> int:
        """Return the number of rows that a search over `kind` sees."""
        return sum(live.live for live in self.of(kind))


def _bisected(ids: Ids, wanted: Ids) -> Ids:
    """Return the rows of wanted ids that are found where they are in order, as most ids are."""
    rows = np.searchsorted(ids, wanted)
    inside = rows < len(ids)
    rows, wanted = rows[inside], wanted[inside]
    found: Ids = rows[ids[rows] == wanted]
    return found


def _compared(ids: Ids, wanted: Ids) -> Ids:
    """Return the rows of wanted ids, in whichever order the ids are."""
    return np.flatnonzero(np.isin(ids, wanted))
