"""One generation as searches see it: immutable, so that a search needs no lock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.segment import Segment
from index.terms import Kind, ModelIdentity

_ALL_LIVE = np.zeros(0, np.bool_)
_ALL_LIVE.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveSegment:
    """A segment as one generation sees it. `dead` is (R,), or (0,) when every row lives."""

    segment: Segment
    dead: NDArray[np.bool_]
    live: int

    @classmethod
    def whole(cls, segment: Segment) -> LiveSegment:
        """Return a segment of which every row lives."""
        return cls(segment, _ALL_LIVE, segment.rows)

    def without(self, ids: list[int]) -> LiveSegment:
        """Return the segment with the rows of these ids dead as well."""
        rows = np.flatnonzero(np.isin(self.segment.ids, ids)) if ids else _ALL_LIVE
        if not len(rows):
            return self
        dead = self.dead.copy() if len(self.dead) else np.zeros(self.segment.rows, np.bool_)
        dead[rows] = True
        dead.flags.writeable = False
        return LiveSegment(self.segment, dead, self.segment.rows - int(np.count_nonzero(dead)))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything one generation consists of."""

    generation: int
    model: ModelIdentity
    segments: tuple[LiveSegment, ...]

    def of(self, kind: Kind) -> list[LiveSegment]:
        """Return the segments of one kind."""
        return [live for live in self.segments if live.segment.record.kind == kind]

    def live(self, kind: Kind) -> int:
        """Return the number of rows that a search over `kind` sees."""
        return sum(live.live for live in self.of(kind))
