"""Search a collection that is larger than memory, and compare the answers with those in plenty.

    python -m benchmarks.learning.scarcity FOLDER --points POINTS [--rows 1000000] [--times 10]

POINTS is a folder that `benchmarks.search` writes. An index of so many rows, real ones and rows
grown from them, is built in FOLDER, which is removed at the end, and searched by two processes: one
with all memory, and one in a control group that may hold, what it maps included, the --times part
of the index's files. The files are not in memory when either begins. Making a control group takes
root.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.report import machine, megabytes, milliseconds, parser_of, table
from benchmarks.search import processes
from hasse.index.search.query import Query
from hasse.index.search.top_k import Hits
from hasse.index.store import Index
from hasse.index.types import Kind, Points

if TYPE_CHECKING:
    from benchmarks.search import source

HITS = 10
GROUPS = Path("/sys/fs/cgroup")
# Of the two versions of control groups: where the groups are, and the file of the limit.
_LIMITS = (("memory", "memory.limit_in_bytes"), ("", "memory.max"))


class ScarcityError(Exception):
    """Memory cannot be limited here; the message says why."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a process found, and what it took.

    Attributes:
        found: ids and violations of each answer.
        proved: answers that were certified.
        seconds: of each answer.
        read: bytes that came from the disk.
    """

    found: list[Hits]
    proved: int
    seconds: list[float]
    read: int


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=float, default=10.0)
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--kind", choices=("image", "caption"), default="image")
    asked = parser.parse_args(arguments)
    # Not above: torch comes with it, and the processes that are measured do without.
    from benchmarks.search import source

    points = source.load(asked.points)
    if asked.folder.exists():
        parser.error(f"{asked.folder} is there already: name a new folder")
    try:
        lines = compared(asked.folder, points, asked)
    except ScarcityError as error:
        parser.exit(1, f"{error}\n")
    finally:
        shutil.rmtree(asked.folder, ignore_errors=True)
    print(f"{machine()}; {points.name}\n")
    print(table((f"{asked.rows:,} x {points.dimension:,}", "in plenty", "in scarcity"), lines))


def compared(
    folder: Path, points: source.Source, asked: argparse.Namespace
) -> list[tuple[str, str, str]]:
    """Build, search in plenty and in scarcity, and return the lines of the table.

    Raises:
        ScarcityError: memory cannot be limited.
        RuntimeError: the answers differ.
    """
    kind: Kind = asked.kind
    queries = points.asking(kind)[: asked.queries]
    real = points.stored(kind)
    with limited(1 << 40):
        pass  # rather than find out when all is built
    processes.alone(processes.build, folder, real, asked.rows, kind, 0, None, "wall")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    memory = int(size / asked.times)
    forget(folder)
    plenty = processes.alone(ask, folder, queries, kind, None)
    forget(folder)
    with limited(memory) as group:
        scarcity = processes.alone(ask, folder, queries, kind, group)
    for mine, other in zip(plenty.found, scarcity.found, strict=True):
        if not (
            np.array_equal(mine.ids, other.ids)
            and np.array_equal(mine.violations, other.violations)
        ):
            raise RuntimeError("an answer in scarcity is another than in plenty")
    half = len(queries) // 2  # of which the first fetch what the others find in memory

    def line(name: str, value: Callable[[Answered], str]) -> tuple[str, str, str]:
        return name, value(plenty), value(scarcity)

    return [
        ("files of the index", megabytes(size), megabytes(size)),
        ("memory, what is mapped included", "all", megabytes(memory)),
        line("certified answers", lambda one: f"{one.proved} of {len(queries)}"),
        line("read from the disk", lambda one: megabytes(one.read)),
        line(f"one query, the first {half}: median", lambda one: _median(one.seconds[:half])),
        line("one query, the others: median", lambda one: _median(one.seconds[half:])),
        line("the slowest", lambda one: f"{max(one.seconds):.2f} s"),
    ]


def ask(folder: Path, queries: Points, kind: Kind, group: Path | None) -> Answered:
    """Answer each query, certified, as a member of a control group."""
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    found, seconds, proved = [], [], 0
    with Index.open(folder, verify="sizes") as index:
        before = processes.read_bytes()
        for query in queries:
            began = time.perf_counter()
            answer = index.search(Query(kind, HITS), query)
            seconds.append(time.perf_counter() - began)
            proved += answer.certified
            found.append(Hits(answer.ids, answer.violations))
        return Answered(found, proved, seconds, processes.read_bytes() - before)


@contextmanager
def limited(memory: int) -> Iterator[Path]:
    """Make a control group that may hold so many bytes, while the block runs.

    Raises:
        ScarcityError: it cannot be made.
    """
    found = [
        (GROUPS / parent, file)
        for parent, file in _LIMITS
        if (GROUPS / parent / "cgroup.procs").exists()
    ]
    if not found:
        raise ScarcityError(
            f"there are no control groups under {GROUPS}: run this on Linux, as root"
        )
    parent, file = found[0]
    group = parent / f"hasse-scarcity-{os.getpid()}"
    try:
        group.mkdir()
        (group / file).write_text(str(memory))
    except OSError as error:
        raise ScarcityError(
            f"cannot limit memory by {group} ({error.strerror}): run this as root, where control "
            "groups may be made"
        ) from error
    try:
        yield group
    finally:
        group.rmdir()


def forget(folder: Path) -> None:
    """Let the system drop what it holds of the files in a folder."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _median(seconds: list[float]) -> str:
    return milliseconds(float(np.median(seconds)))


if __name__ == "__main__":
    main()
