"""An open generation: immutable, so that a search needs no lock."""

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
    """A segment with the rows that one generation excludes.

    `excluded` is (R,), or (0,) if every row is live; `live_rows` is the number of live rows.
    """

    segment: Segment
    excluded: NDArray[np.bool_]
    live_rows: int

    @classmethod
    def all_live(cls, segment: Segment) -> LiveSegment:
        """Return a segment in which every row is live."""
        return cls(segment, _ALL_LIVE, segment.rows)

    def rows(self) -> Ids:
        """Return the live rows, in ascending order."""
        return (
            np.flatnonzero(~self.excluded) if len(self.excluded) else np.arange(self.segment.rows)
        )

    def excluding_ids(self, ids: Ids) -> LiveSegment:
        """Return the segment with the rows of `ids` excluded as well."""
        rows = np.flatnonzero(np.isin(self.segment.ids, ids)) if len(ids) else _ALL_LIVE
        if not len(rows):
            return self
        excluded = (
            self.excluded.copy() if len(self.excluded) else np.zeros(self.segment.rows, np.bool_)
        )
        excluded[rows] = True
        return self._with_excluded(excluded)

    def excluding_rows(self, mask: NDArray[np.bool_]) -> LiveSegment:
        """Return the segment with the rows that are True in `mask` (R,) excluded as well."""
        return self._with_excluded(self.excluded | mask if len(self.excluded) else mask)

    def _with_excluded(self, excluded: NDArray[np.bool_]) -> LiveSegment:
        excluded.flags.writeable = False
        return LiveSegment(
            self.segment, excluded, self.segment.rows - int(np.count_nonzero(excluded))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The open segments of one generation.

    `segments` are those on the disk. `search_segments` are the same rows with small segments
    combined, or None if none are. The `lease` keeps the folders on the disk.
    """

    generation: int
    model: ModelIdentity
    segments: tuple[LiveSegment, ...]
    search_segments: tuple[LiveSegment, ...] | None = None
    lease: Lease | None = None

    def with_segments(self, segments: Iterable[LiveSegment]) -> Snapshot:
        """Return the generation with only these segments, without those that have no live row."""
        live_segments = tuple(live for live in segments if live.live_rows)
        return Snapshot(self.generation, self.model, live_segments, lease=self.lease)

    def segments_of(self, kind: Kind) -> list[LiveSegment]:
        """Return the segments of one kind for a search, with small ones combined."""
        segments = self.segments if self.search_segments is None else self.search_segments
        return [live for live in segments if live.segment.record.kind == kind]

    def ids(self, kind: Kind) -> Ids:
        """Return the ids of the live rows of one kind, unordered."""
        ids = [live.segment.ids[live.rows()] for live in self.segments_of(kind)]
        return np.concatenate([np.empty(0, np.int64), *ids])

    def points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        """Return stored points (N,) by id, without ids that do not exist."""
        by_id: dict[int, Points] = {}
        for find_rows in (_bisect, _compare):
            missing = np.array([id_ for id_ in ids if id_ not in by_id], np.int64)
            for live in self.segments_of(kind) if len(missing) else ():
                rows = find_rows(live.segment.ids, missing)
                if len(live.excluded):
                    rows = rows[~live.excluded[rows]]
                points = np.asarray(live.segment.points)[rows]
                by_id.update(zip(live.segment.ids[rows].tolist(), points, strict=True))
        return by_id

    def live_rows(self, kind: Kind) -> int:
        """Return the number of live rows of `kind`."""
        return sum(live.live_rows for live in self.segments_of(kind))


def _bisect(ids: Ids, targets: Ids) -> Ids:
    """Return the rows of target ids by bisection; it misses some if `ids` are not sorted."""
    rows = np.searchsorted(ids, targets)
    inside = rows < len(ids)
    rows, targets = rows[inside], targets[inside]
    matches: Ids = rows[ids[rows] == targets]
    return matches


def _compare(ids: Ids, targets: Ids) -> Ids:
    """Return the rows of target ids, for ids in any order."""
    return np.flatnonzero(np.isin(ids, targets))
