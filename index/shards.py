"""Shards: parts of an index that different machines search.

A plan is part of the catalog and of its generation: it changes when the generation does. An index
may have plans for several numbers of shards, so that services with an old and with a new number run
side by side. A segment that is newer than the plan belongs to a shard by the hash of its name.
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
        shards: how many there are.
        placed: the number of the shard, from 0, of each segment by name.
    """

    shards: int
    placed: Mapping[str, int]

    def shard_of(self, name: str) -> int:
        """Return the shard that searches a segment."""
        placed = self.placed.get(name)
        return zlib.crc32(name.encode()) % self.shards if placed is None else placed

    def of(self, shard: int, records: Iterable[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        """Return the segments of a shard."""
        return tuple(record for record in records if self.shard_of(record.name) == shard)


@dataclass(frozen=True, slots=True)
class ShardSize:
    """How large a shard is: rows by kind, segments, and bytes.

    A machine should have memory for `resident` bytes: what a certified search reads over and over.
    `points` are mapped from disk; a search reads few of them where there are bounds.
    """

    rows: Mapping[Kind, int]
    segments: int
    resident: int
    points: int


def balanced(records: Sequence[SegmentRecord], shards: int, folder: Path) -> ShardPlan:
    """Divide segments into shards of about as many rows: each next one to the smallest shard.

    Raises:
        BadShardsError: there are more shards than segments.
    """
    most = max((sum(one.kind == kind for one in records) for kind in KINDS), default=0)
    if not 1 <= shards <= max(1, most):
        raise BadShardsError(
            f"{shards} shards need as many segments of images or of captions, and {folder} has "
            f"{most}: plan at most {max(1, most)}, or build it again with fewer rows in each, by "
            "'hasse lab index build --segment-rows ROWS'"
        )
    placed: dict[str, int] = {}
    rows = [0] * shards  # of all kinds, so that a shard with many images gets fewer captions
    for kind in KINDS:
        own = [0] * shards
        for record in sorted(records, key=lambda one: (-one.rows, one.name)):
            if record.kind == kind:
                smallest = min(range(shards), key=lambda at: (own[at], rows[at]))
                placed[record.name] = smallest
                own[smallest] += record.rows
                rows[smallest] += record.rows
    return ShardPlan(shards, placed)


def make_plan(folder: Path, catalog: Catalog, shards: int) -> ShardPlan:
    """Divide an index anew and write that into its catalog, as a new generation.

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
                {"shards": shards, "segment": name, "shard": at} for name, at in plan.placed.items()
            ]
            if rows:
                connection.execute(PLANS.insert(), rows)
    return plan


def read_plan(catalog: Catalog, shards: int) -> ShardPlan | None:
    """Return the plan for so many shards, or None if none was made."""
    with catalog.reading() as connection:
        if not sql.inspect(connection).has_table(PLANS.name):
            return None
        wanted = sql.select(PLANS.c.segment, PLANS.c.shard).where(PLANS.c.shards == shards)
        placed = {row.segment: row.shard for row in connection.execute(wanted)}
    return ShardPlan(shards, placed) if placed else None


def require_plan(folder: Path, catalog: Catalog, shards: int) -> None:
    """Refuse an index that cannot be served from so many shards (BadShardsError)."""
    require_server(folder, catalog)
    if read_plan(catalog, shards) is None:
        raise no_plan(folder, shards)


def no_plan(folder: Path, shards: int) -> BadShardsError:
    """Return the error for an index without a plan for so many shards."""
    return BadShardsError(
        f"there is no plan of {folder} for {shards} shards: make one with "
        f"'hasse cluster plan {folder} --shards {shards}'"
    )


def require_server(folder: Path, catalog: Catalog) -> None:
    """Refuse an index that several machines cannot share (BadShardsError)."""
    if not catalog.is_server:
        raise BadShardsError(
            f"the catalog of {folder} is a SQLite file, which several machines cannot share: "
            "write the address of a PostgreSQL database into catalog.url in a new folder, and "
            "build the index there"
        )


def sizes(plan: ShardPlan, records: Sequence[SegmentRecord]) -> list[ShardSize]:
    """Return how large each shard of a plan is."""
    shard_sizes = []
    for shard in range(plan.shards):
        own = plan.of(shard, records)
        shard_sizes.append(
            ShardSize(
                {kind: sum(one.rows for one in own if one.kind == kind) for kind in KINDS},
                len(own),
                sum(resident_bytes(one) for one in own),
                sum(one.files[POINTS].bytes for one in own),
            )
        )
    return shard_sizes
