"""Description of an index: its segments, rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hasse.index.bounds.files import CODES, COLUMNS
from hasse.index.catalog.records import SegmentRecord
from hasse.index.catalog.schema import FORMAT
from hasse.index.search.query import Query
from hasse.index.segments.cost_model import Costs
from hasse.index.segments.segment import MANIFEST, POINTS
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Kind, ModelIdentity


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """Description of one segment."""

    name: str
    kind: Kind
    rows: int
    live: int
    bytes: int
    bounds: str
    prefilter: str
    plan: str  # of one query for the ten best, certified, on a CPU
    generation: int


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """Description of an index; `bytes` is the size of the segments' files.

    Every certified search reads the `resident` bytes. Of the points of segments with bounds, which
    are not counted, it reads only a few rows.
    """

    folder: Path
    model: ModelIdentity
    format: int
    generation: int
    images: int
    captions: int
    bytes: int
    resident: int
    segments: tuple[SegmentInfo, ...]


def describe(folder: Path, snapshot: Snapshot, costs: Costs) -> IndexInfo:
    """Describe one generation of the index in `folder`."""
    sizes = [live.segment.record.bytes for live in snapshot.segments]
    segments = tuple(
        _segment_info(live, size, costs)
        for live, size in zip(snapshot.segments, sizes, strict=True)
    )
    return IndexInfo(
        folder,
        snapshot.model,
        FORMAT,
        snapshot.generation,
        snapshot.live_rows("image"),
        snapshot.live_rows("caption"),
        sum(sizes),
        sum(resident_bytes(live.segment.record) for live in snapshot.segments),
        segments,
    )


def resident_bytes(record: SegmentRecord) -> int:
    """Return the bytes of a segment that every certified search reads."""
    excluded = {MANIFEST, POINTS} if COLUMNS in record.files else {MANIFEST}
    return sum(file.bytes for name, file in record.files.items() if name not in excluded)


def _bounds_of(record: SegmentRecord) -> str:
    if COLUMNS not in record.files:
        return "none"
    return "half-bytes, bytes" if CODES in record.files else "half-bytes, residuals"


def _segment_info(live: LiveSegment, size: int, costs: Costs) -> SegmentInfo:
    record = live.segment.record
    return SegmentInfo(
        record.name,
        record.kind,
        record.rows,
        live.live_rows,
        size,
        _bounds_of(record),
        live.segment.prefilter.name if live.segment.prefilter else "none",
        _plan(live, costs),
        record.generation,
    )


def _plan(live: LiveSegment, costs: Costs) -> str:
    if live.segment.bounds is None:
        return "scan"
    from hasse.index.search.search import is_scanned

    return "scan" if is_scanned(live, Query(live.segment.record.kind, 10), 1, costs) else "bounds"
