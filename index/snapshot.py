"""One generation as searches see it: immutable, so that a search needs no lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index.catalog import Catalog
from index.errors import DamagedIndexError
from index.records import SegmentRecord, State
from index.segment import Segment, Verify
from index.staging import SEGMENTS
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
        return self._with(dead)

    def hiding(self, hidden: NDArray[np.bool_]) -> LiveSegment:
        """Return the segment with the rows that are True in `hidden` (R,) dead as well."""
        return self._with(self.dead | hidden if len(self.dead) else hidden)

    def _with(self, dead: NDArray[np.bool_]) -> LiveSegment:
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


def load(
    folder: Path, catalog: Catalog, verify: Verify, before: Snapshot | None = None
) -> Snapshot:
    """Open what the visible generation consists of; segments open in `before` are kept.

    Raises:
        FormatVersionError: another version of this program wrote it.
        DamagedIndexError: a file disagrees with the catalog.
    """
    while True:
        state = catalog.state()
        try:
            return _snapshot(folder, state, verify, before)
        except DamagedIndexError:
            # A compaction may have replaced the segment since the state was read.
            if catalog.generation() == state.generation:
                raise


def _snapshot(folder: Path, state: State, verify: Verify, before: Snapshot | None) -> Snapshot:
    known = {live.segment.record.name: live for live in before.segments} if before else {}
    since = before.generation if before else 0
    segments = []
    for record in state.segments:
        live = known.get(record.name) or LiveSegment.whole(_opened(folder, record, state, verify))
        # An id is dead here when it was deleted after the segment was written.
        after = max(since, record.generation) if record.name in known else record.generation
        gone = [
            deletion.id
            for deletion in state.deleted
            if deletion.kind == record.kind and deletion.generation > after
        ]
        segments.append(live.without(gone))
    return Snapshot(state.generation, state.model, tuple(segments))


def _opened(folder: Path, record: SegmentRecord, state: State, verify: Verify) -> Segment:
    if record.dimension != state.model.dimension or record.score != state.model.score:
        raise DamagedIndexError(
            f"the segment {record.name} of {folder} holds {record.score} points of "
            f"{record.dimension} coordinates and the model makes {state.model.score} points of "
            f"{state.model.dimension}: build the index again"
        )
    return Segment.open(folder / SEGMENTS / record.name, record, verify)
