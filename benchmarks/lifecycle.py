"""Measure an index in life: built, grown under search, killed, opened again, compacted.

    python -m benchmarks.lifecycle FOLDER --points POINTS [--rows N] [--additions N] [--clients N]

POINTS is a folder that `benchmarks.search` writes; the rows are its real points, then grown from
them, and the pictures that are added are held-out ones. FOLDER is made, and removed at the end.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.report import machine, milliseconds, parser_of, table
from benchmarks.search import processes
from benchmarks.search.growth import Growth
from hasse.index.search.query import Query
from hasse.index.segments.compaction import everything
from hasse.index.segments.upkeep import Upkeep
from hasse.index.store import Index
from hasse.index.types import ImageRow, Points
from hasse.index.verify import verify

if TYPE_CHECKING:
    from benchmarks.search import source

HITS = 10
UPKEEP_SECONDS = 5.0  # the service's own setting
KILLED_AFTER = 50  # further additions

Say = Callable[[str, str], None]


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--additions", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="that clients search before the first addition"
    )
    asked = parser.parse_args(arguments)
    # Not above: torch comes with it, and the processes that are measured do without.
    from benchmarks.search import source

    points = source.load(asked.points)
    lines: list[tuple[str, str]] = []

    def say(name: str, value: str) -> None:
        lines.append((name, value))
        sys.stderr.write(f"{name}: {value}\n")

    if asked.folder.exists():
        parser.error(f"{asked.folder} is there already: name a new folder")
    try:
        _made(asked.folder / "large", points, asked.rows, say)
        _live(asked.folder / "large", points, asked, say)
    finally:
        shutil.rmtree(asked.folder, ignore_errors=True)
    print(f"{machine()}; {points.name}\n")
    print(table(("", "measured"), lines))


def _made(folder: Path, points: source.Source, rows: int, say: Say) -> None:
    """Build the index in a process of its own."""
    built = processes.alone(processes.build, folder, points.images, rows, "image", 0, None, "wall")
    say("rows built", f"{rows:,} x {points.dimension:,}")
    say("rows built per second", f"{built.rows_per_second:,.0f}")


def _live(folder: Path, points: source.Source, asked: argparse.Namespace, say: Say) -> None:
    """Search from many clients, add pictures one by one, kill the process, and look what is left.

    What the process was told to be durable is looked for by its own point, beside which nothing
    that is stored has a smaller violation.
    """
    count = asked.additions + 2 * KILLED_AFTER
    pictures = np.concatenate([block for _, block in Growth(points.asking_images).blocks(count)])
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(
        target=_lead,
        args=(folder, points.asking_captions, pictures, asked.additions, asked.clients),
        kwargs={"seconds": asked.seconds, "pipe": there},
    )
    process.start()
    there.close()
    added: list[int] = []
    for told in _told(here):
        if isinstance(told, int):
            added.append(told)
            if len(added) == asked.additions + KILLED_AFTER:
                process.kill()
        else:
            say(*told)
    process.join()
    if process.exitcode != -signal.SIGKILL:
        raise RuntimeError("the process that searches and adds ended before it was killed")
    started = time.perf_counter()
    with Index.open(folder) as index:
        say("opening after SIGKILL, checksums compared", _seconds(time.perf_counter() - started))
        lost = sum(
            id_ not in index.search(Query("image", HITS), point).ids
            for id_, point in zip(added, pictures, strict=False)
        )
        say(f"lost, of {len(added):,} that were acknowledged (0)", f"{lost:,}")
        started = time.perf_counter()
        done = index.compact(everything)
        took = _seconds(time.perf_counter() - started)
        say("'compact': segments before, after", f"{done.before} , {done.after} in {took}")
    say("findings of 'verify' (0)", f"{len(verify(folder).findings):,}")


def _told(pipe: Connection) -> Iterator[int | tuple[str, str]]:
    """Yield what a process says until it ends."""
    while True:
        try:
            yield pipe.recv()
        except EOFError:
            return


def _lead(
    folder: Path,
    asked: Points,
    pictures: Points,
    additions: int,
    clients: int,
    *,
    seconds: float,
    pipe: Connection,
) -> None:
    """Search and add until killed; tell the id of each picture when it is durable."""
    # As in the service: clients wait for one thread that searches.
    index, searcher = Index.open(folder, verify="sizes"), ThreadPoolExecutor(1)
    took: list[float] = []
    query = Query("image", HITS)

    def search(number: int) -> None:
        for at in itertools.count(number, clients):
            started = time.perf_counter()
            searcher.submit(index.search, query, asked[at % len(asked)]).result()
            took.append(time.perf_counter() - started)

    def add(at: int) -> bool:
        """Add a picture; tell whether the next search finds it."""
        index.add([_row(first + at)], pictures[[at]])
        pipe.send(first + at)
        found = searcher.submit(index.search, query, pictures[at]).result()
        return first + at in found.ids

    first = index.info().images
    index.search(query, asked[0])
    for number in range(clients):
        threading.Thread(target=search, args=(number,), daemon=True).start()
    time.sleep(seconds)
    alone = _tail(took)
    took.clear()

    Upkeep(
        lambda progress: index.compact(progress=progress), index.release_memory, UPKEEP_SECONDS
    ).start()
    started = time.perf_counter()
    missed = additions - sum(add(at) for at in range(additions))
    rate = additions / (time.perf_counter() - started)
    during = _tail(took)
    pipe.send((f"{clients} clients search: p50, p95", _pair(alone)))
    pipe.send(("while pictures are added: p50, p95", _pair(during)))
    pipe.send(("p95, of the one before (≤ 2 x)", f"{during[1] / alone[1]:.2f} x"))
    pipe.send(("additions per second meanwhile", f"{rate:,.1f}"))
    pipe.send((f"not found by the next search, of {additions:,} (0)", f"{missed:,}"))
    pipe.send(("segments, merged in the background", f"{len(index.info().segments)}"))
    for at in range(additions, len(pictures)):
        add(at)


def _row(id_: int) -> ImageRow:
    return ImageRow(id_, f"{id_}.jpg", f"{id_}.jpg")


def _tail(took: list[float]) -> tuple[float, float]:
    p50, p95 = np.percentile(took, [50, 95])
    return float(p50), float(p95)


def _pair(tail: tuple[float, float]) -> str:
    return " , ".join(map(milliseconds, tail))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


if __name__ == "__main__":
    main()
