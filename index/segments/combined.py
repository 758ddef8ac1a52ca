"""Small segments combined in memory: a thousand additions are searched as one segment.

Visiting a segment of a few rows costs a search more than reading it. So the rows of small segments
are copied, once, to the end of one array with room for more. A search sees the part that was there
when its generation was loaded.
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
    """Tell whether a segment is searched together with others."""
    segment = live.segment
    return (
        segment.points.nbytes < _SMALL_BYTES
        and segment.bounds is None
        and segment.prefilter is None
    )


@dataclass(frozen=True, slots=True, eq=False)
class CombinedSegment:
    """The rows of small segments of one kind, in one array with room for more."""

    names: tuple[str, ...]
    rows: int
    points: Points  # (room, N)
    ids: Ids
    token: str  # of the array, for the segment's name

    def with_all(self, segments: Sequence[LiveSegment]) -> CombinedSegment:
        """Return a combined segment that also holds the new segments; call it on the latest only.

        The rows of this one stay as they are, so that its searches go on.
        """
        fresh = segments[len(self.names) :]
        names = tuple(live.segment.record.name for live in segments)
        rows = self.rows + sum(live.segment.rows for live in fresh)
        if names[: len(self.names)] != self.names or rows > len(self.ids):
            return combined(segments)
        at = self.rows
        for live in fresh:
            end = at + live.segment.rows
            self.points[at:end], self.ids[at:end] = live.segment.points, live.segment.ids
            at = end
        return CombinedSegment(names, rows, self.points, self.ids, self.token)

    def live(self, segments: Sequence[LiveSegment]) -> LiveSegment:
        """Return the rows of these segments, the ones it holds, as one segment."""
        record = segments[0].segment.record
        whole = Segment(
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
        return LiveSegment(whole, _excluded(segments), sum(live.live for live in segments))


def combined(segments: Sequence[LiveSegment]) -> CombinedSegment:
    """Copy small segments of one kind into a new array that has room for as many rows again."""
    rows = sum(live.segment.rows for live in segments)
    dimension = segments[0].segment.record.dimension
    empty = CombinedSegment(
        (),
        0,
        np.empty((2 * rows, dimension), np.float32),
        np.empty(2 * rows, np.int64),
        secrets.token_hex(6),
    )
    return empty.with_all(segments)


def _excluded(segments: Sequence[LiveSegment]) -> NDArray[np.bool_]:
    """Return which rows are excluded, (R,), or (0,) when every row lives."""
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
