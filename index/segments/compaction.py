"""Merge segments: many into few, without the rows that were removed, while searches go on.

    INDEX/compaction/          the segment that is being written
    INDEX/compaction.lock      held by the one process that merges

Writing the merged segment takes no lock that an addition or a removal waits for. Only showing it
does: one transaction, which puts it in the place of those it was made from.
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
from hasse.index.segments.writer import Finished, Merged, Writer
from hasse.index.types import KINDS, Ids, Kind

WORKSPACE = "compaction"
LOCK = "compaction.lock"

# A segment of this many rows of 1,024 coordinates is 4 GB of points and 1.5 GB of codes: large
# enough that a million rows are one scan, small enough that a file stays easy to move and check.
ROWS_PER_SEGMENT = 1 << 20

# As many segments of similar size are merged at once. Each row is then rewritten once for each
# power of it, and no size has more segments than that.
_FANOUT = 8
_SMALLEST_TIER = 512  # rows; all that is smaller is of similar size
_DELETED_SHARE = 0.25  # of the rows of one segment, before it is rewritten for their sake alone
_BLOCK_ROWS = 4096

Group: TypeAlias = list[LiveSegment]
Choice: TypeAlias = Callable[[Sequence[LiveSegment]], list[Group]]
ProgressCallback: TypeAlias = Callable[[int, int], None]  # rows done, and all rows


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: segments before and after, rows it dropped, the generation.

    Segments that were added meanwhile are in neither number.
    """

    before: int
    after: int
    dropped: int
    generation: int


def tiers(segments: Sequence[LiveSegment], rows_per_segment: int = ROWS_PER_SEGMENT) -> list[Group]:
    """Choose segments so that searches stay quick: eight of one size, and mostly deleted ones.

    Like a log-structured merge tree, so that every row is rewritten a few times in its life.
    """
    groups = []
    for kind in KINDS:
        sizes: dict[int, Group] = {}
        for live in _of(kind, segments):
            if live.live <= rows_per_segment // 2:
                sizes.setdefault(_tier(live.live), []).append(live)
        full = [group for group in sizes.values() if len(group) >= _FANOUT]
        packed = [part for group in full for part in _packed(group, rows_per_segment)]
        groups += [part for part in packed if len(part) > 1]
        merging = {live.segment.record.name for group in groups for live in group}
        groups += [
            [live]
            for live in _of(kind, segments)
            if live.segment.record.name not in merging
            and live.segment.rows - live.live > _DELETED_SHARE * live.segment.rows
        ]
    return groups


def everything(
    segments: Sequence[LiveSegment], rows_per_segment: int = ROWS_PER_SEGMENT
) -> list[Group]:
    """Choose segments so that the fewest are left, without removed rows."""
    return [
        group
        for kind in KINDS
        for group in _packed(_of(kind, segments), rows_per_segment)
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
) -> Compacted:
    """Merge what `choose` names, one group after another; see `Index.compact`.

    `latest` opens the newest generation of the index in `folder`, and `writing` makes this the one
    writer of it.
    """
    workspace = folder / WORKSPACE
    done = dropped = 0
    with disk_full_reported(folder), locked(folder, catalog, LOCK, 0.0, "compacting"):
        durable.remove(workspace)
        segments = latest().segments
        after, groups = len(segments), choose(segments)
        total = sum(live.live for group in groups for live in group)

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
                stored = merged.finished[1].rows if merged.finished else 0
                after -= len(group) - (merged.finished is not None)
                dropped += sum(live.segment.rows for live in group) - stored
        finally:
            durable.remove(workspace)
        with writing():
            pass  # sweeps away the segments that were merged, unless they are still read
    return Compacted(len(segments), after, dropped, latest().generation)


def merge(
    workspace: Path,
    snapshot: Snapshot,
    names: set[str],
    progress: Callable[[int], None],
    thresholds: Thresholds = DEFAULT,
) -> Merged:
    """Write the live rows of segments of one kind into one at `workspace`.

    `progress` gets the number of rows of each block. All files are compared with their checksums
    first: the merged segment must not contain damage under a new checksum.

    Raises:
        DamagedIndexError: a file was changed since it was written.
    """
    group = [live for live in snapshot.segments if live.segment.record.name in names]
    record = group[0].segment.record
    for live in group:
        for name in (POINTS, IDS):
            check_file(live.segment.folder / name, live.segment.record.files[name], "checksums")
    finished: Finished | None = None
    if any(live.live for live in group):
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
        finished = (workspace, writer.seal())
    others = [
        live.segment.ids[live.excluded]
        for live in _of(record.kind, snapshot.segments)
        if len(live.excluded) and live.segment.record.name not in names
    ]
    needed = np.concatenate([np.empty(0, np.int64), *others])
    return Merged(record.kind, sorted(names), finished, snapshot.generation, needed)


def _of(kind: Kind, segments: Sequence[LiveSegment]) -> list[LiveSegment]:
    return [live for live in segments if live.segment.record.kind == kind]


def _tier(rows: int) -> int:
    return max(0, math.floor(math.log(max(1, rows) / _SMALLEST_TIER, _FANOUT)) + 1)


def _packed(segments: Sequence[LiveSegment], rows_per_segment: int) -> list[Group]:
    """Divide segments into groups that are one segment each: first fit, the largest first."""
    groups: list[Group] = []
    for live in sorted(segments, key=lambda live: -live.live):
        for group in groups:
            if sum(one.live for one in group) + live.live <= rows_per_segment:
                group.append(live)
                break
        else:
            groups.append([live])
    return groups


def _live_blocks(live: LiveSegment) -> Iterator[Ids]:
    rows = live.rows()
    for at in range(0, len(rows), _BLOCK_ROWS):
        yield rows[at : at + _BLOCK_ROWS]
