"""Measure one large shard: what it takes to build, to open and to search in little memory.

    python -m benchmarks.cluster.shard FOLDER --points POINTS \\
        --database postgresql+psycopg://user@host/postgres --rows 10000000 --memory-gb 8

POINTS is a folder that `benchmarks.search` writes; its rows are grown to as many as asked. The
server gets a database for the catalog, which has no row for each image: shards read none. FOLDER
is kept, and searched again by the next run. Limiting the memory takes root. Beside the time that
passes stands that of the processor, which a busy machine does not change much.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.cluster.trial import new_database
from benchmarks.learning.scarcity import forget, limited
from benchmarks.report import Line, finish, machine, parser_of
from benchmarks.search import processes, source
from benchmarks.search.growth import Growth
from benchmarks.search.oracle import same
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import CATALOG_URL, catalog_url
from hasse.index.creation import create, open_catalog
from hasse.index.search.query import Answer, Query
from hasse.index.segments.compaction import ROWS_PER_SEGMENT
from hasse.index.segments.segment import SegmentWriter
from hasse.index.segments.writer import writing
from hasse.index.shards import make_plan, sizes
from hasse.index.types import ModelIdentity, Points
from hasse.service.cluster.shard import Ask, Shard

NAME = "hasse_benchmark_shard"
BATCH = 32


class Seconds(NamedTuple):
    """Time that passed, and time of the processor."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        """Return both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, start: Seconds) -> Seconds:
        """Return what passed between two readings."""
        return Seconds(self.wall - start.wall, self.cpu - start.cpu)


@dataclass(frozen=True, slots=True)
class Searched:
    """What a process that held the shard measured.

    Attributes:
        opened: until the shard could be asked: checksums, and compiled kernels loaded.
        single, batched, exact: for each query, of one call after another.
        read: bytes that single queries, and then batches, brought from the disk.
        resident, own: bytes that the process held then; `own` without what is mapped from files.
        rescored: rows whose point was read, on average of the single queries.
        bytes: of codes and points that a single query looked at, on average.
        certified: whether all answers were.
    """

    opened: Seconds
    single: list[Seconds]
    batched: list[Seconds]
    exact: list[Seconds]
    read: tuple[int, int]
    resident: int
    own: int
    rescored: float
    bytes: float
    certified: bool


def main() -> None:
    """Build the shard if it is not there, search it, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--database", required=True, help="a PostgreSQL server")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-gb", type=float, default=8.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all queries of one kind")
    parser.add_argument("--exact", type=int, default=4, help="queries compared with a full scan")
    parser.add_argument("--shards", type=int, default=1, help="search the first of so many")
    asked, at = parser.parse_args(), machine()
    points, folder = source.load(asked.points), asked.folder.resolve()
    lines = []
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / CATALOG_URL).write_text(new_database(asked.database, NAME))
        took, peak = processes.alone(build, folder, points.images, asked.rows)
        said = f"{took.wall:,.0f} s, processor {took.cpu:,.0f} s"
        lines += [
            Line("build", f"{said}, {asked.rows / took.cpu:,.0f} rows a second of it"),
            Line("memory of the build, without mapped files", f"{peak / 1e9:.2f} GB"),
        ]
    files = [file for file in folder.rglob("*") if file.is_file()]
    for name in ("points.npy", "columns.npy", "codes.npy"):
        held = sum(file.stat().st_size for file in files if file.name == name)
        lines.append(Line(f"disk: {name}", f"{held / asked.rows:.0f} bytes a row"))
    with closing(open_catalog(folder)) as catalog:
        plan = make_plan(folder, catalog, asked.shards)
        size = sizes(plan, catalog.state().segments)[0]
    forget(folder)
    queries = points.asking_captions[: asked.queries]
    with limited(int(asked.memory_gb * 1e9)) as group:
        found = processes.alone(ask, folder, queries, asked, group)
    half = len(found.single) // 2
    lines += [
        Line(
            "opening, every checksum compared",
            f"{found.opened.wall:.0f} s, processor {found.opened.cpu:.0f} s",
        ),
        Line(
            f"certified, one by one, the first {half} of {len(found.single)}",
            _spread(found.single[:half]),
        ),
        Line("certified, one by one, the others", _spread(found.single[half:])),
        Line(f"certified, each of {BATCH} together", _spread(found.batched)),
        *(Line(f"exact, each of {asked.exact} together", _spread([one])) for one in found.exact),
        Line("rows whose point a query reads", f"{found.rescored:,.0f}"),
        Line("bytes of codes and points that a query reads", f"{found.bytes / 1e6:,.0f} MB"),
        Line("read from the disk by single queries; batches", _gigabytes(*found.read)),
        Line("resident; without mapped files", _gigabytes(found.resident, found.own)),
        Line("certified", "all" if found.certified else "not all", "all", found.certified),
    ]
    finish(
        f"{size.rows['image']:,} images of {points.dimension} coordinates ({points.name}), "
        f"{asked.threads} thread, {asked.memory_gb:g} GB of memory, what is mapped included",
        lines,
        at,
    )


def build(folder: Path, real: Points, rows: int) -> tuple[Seconds, int]:
    """Write rows grown from real ones; return the time without the growing, and bytes of memory."""
    model = ModelIdentity("benchmark", "0" * 64, int(real.shape[1]), "order")
    blocks, grown = Growth(real).blocks(rows), Seconds(0.0, 0.0)
    started = Seconds.now()
    with closing(Catalog(catalog_url(folder))) as catalog, processes.Peak() as peak:
        create(folder, catalog, model)
        with writing(folder, catalog, model, 0.0) as writer:
            records, segment = [], None
            while True:
                began = Seconds.now()
                at, block = next(blocks, (rows, real[:0]))
                spent = Seconds.now().since(began)
                grown = Seconds(grown.wall + spent.wall, grown.cpu + spent.cpu)
                if segment is not None and (segment.rows >= ROWS_PER_SEGMENT or not len(block)):
                    records += writer.publish((segment.folder, segment.seal()))
                    segment = None
                if not len(block):
                    break
                segment = segment or SegmentWriter(
                    writer.workspace(), "image", model.dimension, model.score
                )
                segment.append(np.arange(at, at + len(block)), block)
            writer.commit(records)
    took = Seconds.now().since(started).since(grown)
    return took, peak.bytes


def ask(folder: Path, queries: Points, asked: argparse.Namespace, group: Path) -> Searched:
    """Open the shard as a member of a control group, and search it."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    began = Seconds.now()
    with closing(Shard(folder, 0, asked.shards, asked.threads)) as shard:
        opened = Seconds.now().since(began)
        (generation,) = shard.generations

        def timed(query: Query, size: int, count: int) -> tuple[list[Answer], list[Seconds]]:
            found, seconds, ends = [], [], time.monotonic() + asked.seconds
            for at in range(0, count, max(1, size)):
                if time.monotonic() > ends:
                    break
                began = Seconds.now()
                answers = shard.search(generation, Ask(query, queries[at : at + size]))
                assert answers is not None
                found += answers
                took = Seconds.now().since(began)
                seconds.append(Seconds(took.wall / len(answers), took.cpu / len(answers)))
            if seconds:
                print(f"{query.mode}, {size} together: {_spread(seconds)}", flush=True)
            return found, seconds

        reads = [processes.read_bytes()]
        alone, single = timed(Query("image", 10), 1, len(queries))
        reads.append(processes.read_bytes())
        together, batched = timed(Query("image", 10), BATCH, len(queries))
        reads.append(processes.read_bytes())
        resident, own = processes.memory("VmRSS"), processes.memory("RssAnon")
        truth, full = timed(Query("image", 10, "exact"), asked.exact, asked.exact)
    both = min(len(together), len(alone))
    same("a batch", together[:both], alone[:both])
    same("certified", together[: asked.exact], truth)
    return Searched(
        opened,
        single,
        batched,
        full,
        (reads[1] - reads[0], reads[2] - reads[1]),
        resident,
        own,
        float(np.mean([one.rescored for one in alone])),
        float(np.mean([one.work.bytes for one in alone])),
        all(one.certified for one in (*alone, *together)),
    )


def _spread(seconds: list[Seconds]) -> str:
    middle, high = 1e3 * np.percentile(seconds, (50, 95), axis=0)
    return f"{middle[0]:,.1f} ms (95 %: {high[0]:,.1f} ms), processor {middle[1]:,.1f} ms"


def _gigabytes(*sizes: int) -> str:
    return "; ".join(f"{size / 1e9:.2f} GB" for size in sizes)


if __name__ == "__main__":
    main()
