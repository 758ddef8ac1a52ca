"""Small segments combined in memory: a thousand additions are searched as one segment.

For a segment of a few rows the fixed cost of a search exceeds that of its rows. So the rows of
small segments are copied, once, to the end of one array with room for more. A search reads the part
that existed when its generation was loaded.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.catalog.records import SegmentRecord
from hasse.index.kernels.arrays import read_only
from hasse.index.segments.segment import Segment
from hasse.index.segments.snapshot import LiveSegment
from hasse.index.types import Ids, Points

# A larger segment is mapped from its file and visited on its own, for a few per cent of its scan.
_SMALL_BYTES = 1 << 20


def is_small(live: LiveSegment) -> bool:
    """Return whether a segment is combined with others."""
    return live.segment.bounds is None and live.segment.points.nbytes < _SMALL_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class CombinedSegment:
    """The rows of small segments of one kind, in one array with room for more."""

    names: tuple[str, ...]
    rows: int
    points: Points  # (room, N)
    ids: Ids
    token: str  # names the array, as a part of the segment's name

    def extend(self, segments: Sequence[LiveSegment]) -> CombinedSegment:
        """Return a combined segment of all `segments`; call it on the latest one only.

        It shares the array and leaves the rows of this one unchanged, for searches under way.
        """
        new = segments[len(self.names) :]
        names = tuple(live.segment.record.name for live in segments)
        rows = self.rows + sum(live.segment.rows for live in new)
        if names[: len(self.names)] != self.names or rows > len(self.ids):
            return combine(segments)
        at = self.rows
        for live in new:
            end = at + live.segment.rows
            self.points[at:end], self.ids[at:end] = live.segment.points, live.segment.ids
            at = end
        return CombinedSegment(names, rows, self.points, self.ids, self.token)

    def as_segment(self, segments: Sequence[LiveSegment]) -> LiveSegment:
        """Return the combined segment for a search; `segments` say which rows are excluded."""
        record = segments[0].segment.record
        segment = Segment(
            segments[0].segment.folder.parent,
            SegmentRecord(
                f"{record.kind}-combined-{self.token}-{self.rows}",
                record.kind,
                self.rows,
                record.dimension,
                record.dtype,
                record.score,
                {},
                record.generation,
            ),
            orientation=segments[0].segment.orientation,
            points=read_only(self.points[: self.rows]),
            ids=read_only(self.ids[: self.rows]),
            bounds=None,
            prefilter=None,
        )
        return LiveSegment(segment, _excluded(segments), sum(live.live_rows for live in segments))


def combine(segments: Sequence[LiveSegment]) -> CombinedSegment:
    """Copy small segments of one kind into a new array with room for as many rows again."""
    rows = sum(live.segment.rows for live in segments)
    dimension = segments[0].segment.record.dimension
    empty = CombinedSegment(
        (),
        0,
        np.empty((2 * rows, dimension), np.float32),
        np.empty(2 * rows, np.int64),
        secrets.token_hex(6),
    )
    return empty.extend(segments)


def _excluded(segments: Sequence[LiveSegment]) -> NDArray[np.bool_]:
    """Return the mask of excluded rows (R,), or (0,) if every row is live."""
    if not any(len(live.excluded) for live in segments):
        return segments[0].excluded
    return read_only(
        np.concatenate(
            [
                live.excluded if len(live.excluded) else np.zeros(live.segment.rows, np.bool_)
                for live in segments
            ]
        )
    )
