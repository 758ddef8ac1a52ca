"""Shards: parts of an index that different machines search.

A plan is stored in the catalog and belongs to a generation. An index may have plans for several
numbers of shards, so that services with an old and a new number can run at the same time. A segment
that is newer than the plan is assigned to a shard by the hash of its name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import Column, Integer, Table, Text

from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord
from hasse.index.errors import BadShardsError
from hasse.index.info import resident_bytes
from hasse.index.locking import locked
from hasse.index.segments.segment import POINTS
from hasse.index.segments.writer import LOCK, LOCK_TIMEOUT
from hasse.index.types import KINDS, Kind

PLANS = Table(
    "shard_plans",
    sql.MetaData(),
    Column("shards", Integer, primary_key=True),
    Column("segment", Text, primary_key=True),
    Column("shard", Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """A division of an index into shards.

    Attributes:
        shards: number of shards.
        shard_by_segment: number of the shard, from 0, by the name of the segment.
    """

    shards: int
    shard_by_segment: Mapping[str, int]

    def shard_of(self, name: str) -> int:
        """Return the shard that searches a segment."""
        shard = self.shard_by_segment.get(name)
        return zlib.crc32(name.encode()) % self.shards if shard is None else shard

    def segments_of(
        self, shard: int, records: Iterable[SegmentRecord]
    ) -> tuple[SegmentRecord, ...]:
        """Return the segments of a shard."""
        return tuple(record for record in records if self.shard_of(record.name) == shard)


@dataclass(frozen=True, slots=True)
class ShardSize:
    """The size of a shard: rows by kind, number of segments, and bytes.

    A machine should have memory for the `resident` bytes, which every certified search reads. The
    bytes of `points` are mapped from disk; in segments with bounds a search reads few of them.
    """

    rows: Mapping[Kind, int]
    segments: int
    resident: int
    points: int


def balanced(records: Sequence[SegmentRecord], shards: int, folder: Path) -> ShardPlan:
    """Divide segments into shards of similar size: the next largest goes to the smallest shard.

    Raises:
        BadShardsError: there are more shards than segments.
    """
    most = max((sum(each.kind == kind for each in records) for kind in KINDS), default=0)
    if not 1 <= shards <= max(1, most):
        raise BadShardsError(
            f"{shards} shards need as many segments of images or of captions, and {folder} has "
            f"{most}: plan at most {max(1, most)}, or build it again with fewer rows in each, by "
            "'hasse lab index build --segment-rows ROWS'"
        )
    shard_by_segment: dict[str, int] = {}
    rows = [0] * shards  # of all kinds, so that a shard with many images gets fewer captions
    for kind in KINDS:
        kind_rows = [0] * shards
        for record in sorted(records, key=lambda record: (-record.rows, record.name)):
            if record.kind == kind:
                smallest = min(range(shards), key=lambda shard: (kind_rows[shard], rows[shard]))
                shard_by_segment[record.name] = smallest
                kind_rows[smallest] += record.rows
                rows[smallest] += record.rows
    return ShardPlan(shards, shard_by_segment)


def plan_shards(folder: Path, catalog: Catalog, shards: int) -> ShardPlan:
    """Divide an index into shards, and write the plan to its catalog as a new generation.

    Raises:
        BadShardsError: there are more shards than segments, or the catalog is a file.
        IndexLockedError: another process is writing.
    """
    require_server(folder, catalog)
    with locked(folder, catalog, LOCK, LOCK_TIMEOUT):
        state = catalog.state()
        plan = balanced(state.segments, shards, folder)
        with catalog.writing() as connection:
            PLANS.create(connection, checkfirst=True)
            mutations.raise_generation(connection, state.model)
            connection.execute(PLANS.delete().where(PLANS.c.shards == shards))
            rows = [
                {"shards": shards, "segment": name, "shard": shard}
                for name, shard in plan.shard_by_segment.items()
            ]
            if rows:
                connection.execute(PLANS.insert(), rows)
    return plan


def read_plan(catalog: Catalog, shards: int) -> ShardPlan | None:
    """Return the plan for this number of shards, or None if there is none."""
    with catalog.reading() as connection:
        if not sql.inspect(connection).has_table(PLANS.name):
            return None
        statement = sql.select(PLANS.c.segment, PLANS.c.shard).where(PLANS.c.shards == shards)
        shard_by_segment = {row.segment: row.shard for row in connection.execute(statement)}
    return ShardPlan(shards, shard_by_segment) if shard_by_segment else None


def require_plan(folder: Path, catalog: Catalog, shards: int) -> None:
    """Refuse an index without a plan for this number of shards (BadShardsError)."""
    require_server(folder, catalog)
    if read_plan(catalog, shards) is None:
        raise no_plan(folder, shards)


def no_plan(folder: Path, shards: int) -> BadShardsError:
    """Return the error for an index without a plan for this number of shards."""
    return BadShardsError(
        f"there is no plan of {folder} for {shards} shards: make one with "
        f"'hasse cluster plan {folder} --shards {shards}'"
    )


def require_server(folder: Path, catalog: Catalog) -> None:
    """Refuse an index whose catalog several machines cannot share (BadShardsError)."""
    if not catalog.is_server:
        raise BadShardsError(
            f"the catalog of {folder} is a SQLite file, which several machines cannot share: "
            "write the address of a PostgreSQL database into catalog.url in a new folder, and "
            "build the index there"
        )


def shard_sizes(plan: ShardPlan, records: Sequence[SegmentRecord]) -> list[ShardSize]:
    """Return the size of each shard of a plan."""
    sizes = []
    for shard in range(plan.shards):
        segments = plan.segments_of(shard, records)
        sizes.append(
            ShardSize(
                {kind: sum(each.rows for each in segments if each.kind == kind) for kind in KINDS},
                len(segments),
                sum(resident_bytes(each) for each in segments),
                sum(each.files[POINTS].bytes for each in segments),
            )
        )
    return sizes
