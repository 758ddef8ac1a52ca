"""Merge segments: many into few, without removed rows, while searches go on.

    INDEX/compaction/          the segment that is being written
    INDEX/compaction.lock      held by the one process that merges

Additions and removals go on while the merged segment is written. They wait only for the transaction
that shows it in place of its sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hasse.index import durable
from hasse.index.catalog.catalog import Catalog
from hasse.index.errors import disk_full_reported
from hasse.index.locking import locked
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.segments.segment import IDS, POINTS, SegmentWriter, check_file
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.segments.writer import MergedSegments, Writer, WrittenSegment
from hasse.index.types import KINDS, Ids, Kind

WORKSPACE = "compaction"
LOCK = "compaction.lock"

# A segment of this many rows of 1,024 coordinates is 4 GB of points and 1.5 GB of codes: large
# enough that a million rows are one scan, small enough that a file stays easy to move and check.
ROWS_PER_SEGMENT = 1 << 20

# Segments of similar size that are merged at once. A row is rewritten once for each power of it,
# and no size has more segments than this.
_FANOUT = 8
_SMALLEST_TIER = 512  # rows; smaller segments count as one size
_DELETED_SHARE = 0.25  # of a segment's rows; above it the segment is rewritten alone
_BLOCK_ROWS = 4096

Group: TypeAlias = list[LiveSegment]
Choice: TypeAlias = Callable[[Sequence[LiveSegment]], list[Group]]
ProgressCallback: TypeAlias = Callable[[int, int], None]  # rows done, and all rows


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Numbers of segments before and after a compaction, of dropped rows, and the generation.

    Segments that were added meanwhile are in neither number.
    """

    before: int
    after: int
    dropped: int
    generation: int


def tiers(segments: Sequence[LiveSegment], rows_per_segment: int = ROWS_PER_SEGMENT) -> list[Group]:
    """Choose eight segments of similar size, and segments with many deleted rows.

    As in a log-structured merge tree, every row is rewritten only a few times in its life.
    """
    groups = []
    for kind in KINDS:
        sizes: dict[int, Group] = {}
        for live in _of(kind, segments):
            if live.live_rows <= rows_per_segment // 2:
                sizes.setdefault(_tier(live.live_rows), []).append(live)
        full = [group for group in sizes.values() if len(group) >= _FANOUT]
        packed = [part for group in full for part in _pack(group, rows_per_segment)]
        groups += [part for part in packed if len(part) > 1]
        merging = {live.segment.record.name for group in groups for live in group}
        groups += [
            [live]
            for live in _of(kind, segments)
            if live.segment.record.name not in merging
            and live.segment.rows - live.live_rows > _DELETED_SHARE * live.segment.rows
        ]
    return groups


def everything(
    segments: Sequence[LiveSegment], rows_per_segment: int = ROWS_PER_SEGMENT
) -> list[Group]:
    """Choose segments so that as few as possible remain, without removed rows."""
    return [
        group
        for kind in KINDS
        for group in _pack(_of(kind, segments), rows_per_segment)
        if len(group) > 1 or len(group[0].excluded)
    ]


def compact(
    folder: Path,
    catalog: Catalog,
    latest: Callable[[], Snapshot],
    writing: Callable[[], AbstractContextManager[Writer]],
    choose: Choice = tiers,
    progress: ProgressCallback = lambda done, total: None,
    thresholds: Thresholds = DEFAULT,
) -> CompactionResult:
    """Merge the segments that `choose` returns, one group after another; see `Index.compact`.

    `latest` opens the newest generation of the index in `folder`; `writing` takes its lock and
    yields the writer.
    """
    workspace = folder / WORKSPACE
    done = dropped = 0
    with disk_full_reported(folder), locked(folder, catalog, LOCK, 0.0, "compacting"):
        durable.remove(workspace)
        segments = latest().segments
        after, groups = len(segments), choose(segments)
        total = sum(live.live_rows for group in groups for live in group)

        def count(rows: int) -> None:
            nonlocal done
            done += rows
            progress(done, total)

        try:
            for group in groups:
                names = {live.segment.record.name for live in group}
                merged = merge(workspace, latest(), names, count, thresholds)
                with writing() as writer:
                    writer.replace(merged)
                merged_rows = merged.segment[1].rows if merged.segment else 0
                after -= len(group) - (merged.segment is not None)
                dropped += sum(live.segment.rows for live in group) - merged_rows
        finally:
            durable.remove(workspace)
        with writing():
            pass  # `writing` removes the merged segments, unless a reader still uses them
    return CompactionResult(len(segments), after, dropped, latest().generation)


def merge(
    workspace: Path,
    snapshot: Snapshot,
    names: set[str],
    progress: Callable[[int], None],
    thresholds: Thresholds = DEFAULT,
) -> MergedSegments:
    """Write the live rows of segments of one kind into one segment at `workspace`.

    `progress` gets the number of rows of each block. All files are compared with their checksums
    first, because the merged segment gets a checksum that would hide damage.

    Raises:
        DamagedIndexError: a file was changed since it was written.
    """
    group = [live for live in snapshot.segments if live.segment.record.name in names]
    record = group[0].segment.record
    for live in group:
        for name in (POINTS, IDS):
            check_file(live.segment.folder / name, live.segment.record.files[name], "checksums")
    merged: WrittenSegment | None = None
    if any(live.live_rows for live in group):
        writer = SegmentWriter(workspace, record.kind, record.dimension, record.score, thresholds)
        try:
            for live in group:
                with live.segment.read_in_order():
                    for rows in _live_blocks(live):
                        writer.append(live.segment.ids[rows], live.segment.points[rows])
                        progress(len(rows))
        except BaseException:
            writer.abandon()
            raise
        merged = (workspace, writer.seal())
    deleted_elsewhere = [
        live.segment.ids[live.excluded]
        for live in _of(record.kind, snapshot.segments)
        if len(live.excluded) and live.segment.record.name not in names
    ]
    needed_ids = np.concatenate([np.empty(0, np.int64), *deleted_elsewhere])
    return MergedSegments(record.kind, sorted(names), merged, snapshot.generation, needed_ids)


def _of(kind: Kind, segments: Sequence[LiveSegment]) -> list[LiveSegment]:
    return [live for live in segments if live.segment.record.kind == kind]


def _tier(rows: int) -> int:
    return max(0, math.floor(math.log(max(1, rows) / _SMALLEST_TIER, _FANOUT)) + 1)


def _pack(segments: Sequence[LiveSegment], rows_per_segment: int) -> list[Group]:
    """Divide segments into groups that fit into one segment each: first fit, the largest first."""
    groups: list[Group] = []
    for live in sorted(segments, key=lambda live: -live.live_rows):
        for group in groups:
            if sum(one.live_rows for one in group) + live.live_rows <= rows_per_segment:
                group.append(live)
                break
        else:
            groups.append([live])
    return groups


def _live_blocks(live: LiveSegment) -> Iterator[Ids]:
    rows = live.rows()
    for at in range(0, len(rows), _BLOCK_ROWS):
        yield rows[at : at + _BLOCK_ROWS]
