"""Merge segments: many into few, without the rows that were removed, while searches go on.

    INDEX/compaction/          the segment that is being written; nobody sees it
    INDEX/compaction.lock      held by the one process that merges

Writing the merged segment takes no lock that an addition or a removal waits for. Only showing it
does: one transaction, which puts it in the place of those it was made from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from index import durable
from index.catalog.records import SegmentRecord
from index.errors import disk_full_named
from index.segments.segment import IDS, POINTS, SegmentWriter, check_file
from index.segments.snapshot import LiveSegment, Snapshot
from index.types import KINDS, Ids, Kind

if TYPE_CHECKING:
    from index.store import Index

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
Tally: TypeAlias = Callable[[int, int], None]  # told how many are done, of how many


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: segments before and after, rows it dropped, the generation.

    Segments that were added meanwhile are in neither number.
    """

    before: int
    after: int
    dropped: int
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Segments of one kind and what takes their place: `record`, or nothing if no row lives.

    The rows are those that were alive in `generation`. `needed` are ids whose deletions have to
    be remembered, because rows of other segments are deleted by them.
    """

    kind: Kind
    names: list[str]
    record: SegmentRecord | None
    generation: int
    needed: Ids


def tiers(segments: Sequence[LiveSegment]) -> list[Group]:
    """Choose what keeps searches quick at little cost: eight of a size, and the mostly deleted.

    Like a log-structured merge tree, so that every row is rewritten a few times in its life.
    """
    groups = []
    for kind in KINDS:
        sizes: dict[int, Group] = {}
        for live in _of(kind, segments):
            if live.live <= ROWS_PER_SEGMENT // 2:
                sizes.setdefault(_tier(live.live), []).append(live)
        full = [group for group in sizes.values() if len(group) >= _FANOUT]
        groups += [part for group in full for part in _packed(group) if len(part) > 1]
        merging = {live.segment.record.name for group in groups for live in group}
        groups += [
            [live]
            for live in _of(kind, segments)
            if live.segment.record.name not in merging
            and live.segment.rows - live.live > _DELETED_SHARE * live.segment.rows
        ]
    return groups


def everything(segments: Sequence[LiveSegment]) -> list[Group]:
    """Choose what leaves the fewest segments and not one removed row."""
    return [
        group
        for kind in KINDS
        for group in _packed(_of(kind, segments))
        if len(group) > 1 or len(group[0].excluded)
    ]


def run(index: Index, choose: Choice, progress: Tally) -> Compacted:
    """Merge what `choose` names, one group after another; see `Index.compact`."""
    place = index.folder / WORKSPACE
    done = dropped = 0
    with disk_full_named(index.folder), durable.locked(index.folder / LOCK, 0.0, "compacting"):
        durable.remove(place)
        index.refresh()
        segments = index.snapshot.segments
        after, groups = len(segments), choose(segments)
        total = sum(live.live for group in groups for live in group)

        def count(rows: int) -> None:
            nonlocal done
            done += rows
            progress(done, total)

        try:
            for group in groups:
                names = {live.segment.record.name for live in group}
                record = _replace(index, names, place, count)
                after -= len(group) - (record is not None)
                kept = 0 if record is None else record.rows
                dropped += sum(live.segment.rows for live in group) - kept
        finally:
            durable.remove(place)
        with index.writing():
            pass  # sweeps away what was merged, where nobody reads it any more
    return Compacted(len(segments), after, dropped, index.generation)


def _replace(
    index: Index, names: set[str], place: Path, progress: Callable[[int], None]
) -> SegmentRecord | None:
    """Merge these segments as they are by now; return what takes their place, if anything."""
    snapshot = index.snapshot
    group = [live for live in snapshot.segments if live.segment.record.name in names]
    merged = merge(place, snapshot, group, progress)
    with index.writing() as writer:
        if merged.record is not None:
            writer.publish((place, merged.record))
        writer.replace(merged)
    return merged.record


def merge(
    folder: Path, snapshot: Snapshot, group: Group, progress: Callable[[int], None]
) -> Merged:
    """Write the live rows of a group into a segment at `folder`; tell how many it takes in.

    What is merged is compared with its checksums first: damage must not be sealed anew.

    Raises:
        DamagedIndexError: a file was changed since it was written.
    """
    record = group[0].segment.record
    names = [live.segment.record.name for live in group]
    for live in group:
        for name in (POINTS, IDS):
            check_file(live.segment.folder / name, live.segment.record.files[name], "checksums")
    sealed = None
    if any(live.live for live in group):
        writer = SegmentWriter(folder, record.kind, record.dimension, record.score)
        try:
            for live in group:
                with live.segment.in_order():
                    for rows in _live_blocks(live):
                        writer.append(live.segment.ids[rows], live.segment.points[rows])
                        progress(len(rows))
        except BaseException:
            writer.abandon()
            raise
        sealed = writer.seal()
    others = [
        live.segment.ids[live.excluded]
        for live in _of(record.kind, snapshot.segments)
        if len(live.excluded) and live.segment.record.name not in names
    ]
    needed = np.concatenate(others) if others else np.empty(0, np.int64)
    return Merged(record.kind, names, sealed, snapshot.generation, needed)


def _of(kind: Kind, segments: Sequence[LiveSegment]) -> list[LiveSegment]:
    return [live for live in segments if live.segment.record.kind == kind]


def _tier(rows: int) -> int:
    return max(0, math.floor(math.log(max(1, rows) / _SMALLEST_TIER, _FANOUT)) + 1)


def _packed(segments: Sequence[LiveSegment]) -> list[Group]:
    """Divide segments into groups that are one segment each: first fit, the largest first."""
    groups: list[tuple[int, Group]] = []
    for live in sorted(segments, key=lambda live: -live.live):
        for at, (rows, group) in enumerate(groups):
            if rows + live.live <= ROWS_PER_SEGMENT:
                group.append(live)
                groups[at] = (rows + live.live, group)
                break
        else:
            groups.append((live.live, [live]))
    return [group for _, group in groups]


def _live_blocks(live: LiveSegment) -> Iterator[Ids]:
    for at in range(0, live.segment.rows, _BLOCK_ROWS):
        rows = np.arange(at, min(at + _BLOCK_ROWS, live.segment.rows))
        kept = rows[~live.excluded[rows]] if len(live.excluded) else rows
        if len(kept):
            yield kept
