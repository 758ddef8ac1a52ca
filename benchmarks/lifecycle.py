"""Measure an index in life: built, served, grown picture by picture under search, compacted.

    python -m benchmarks.lifecycle FOLDER --points POINTS [--rows N] [--additions N] [--clients N]

POINTS is a folder that `benchmarks.search` writes; the rows are its real points, then grown from
them. FOLDER is made, and removed at the end.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from index.build import build
from index.compaction import everything
from index.store import Index
from index.terms import ImageRow, ModelIdentity, Points
from index.upkeep import Upkeep

if TYPE_CHECKING:
    from benchmarks.search import source

HITS = 10
SEARCHES = 400  # on the quiet index, from all clients together
KEPT = {1, 10, 100, 1000}  # numbers of segments at which one search is timed


def main() -> None:
    """Run what the command line asks for and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--additions", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    asked = parser.parse_args()
    # Not above: torch comes with it, and the process that serves is measured without.
    from benchmarks.search import source
    from benchmarks.search.report import machine, table

    points = source.load(asked.points)
    lines: list[tuple[str, str]] = []

    def say(name: str, value: str) -> None:
        lines.append((name, value))
        sys.stderr.write(f"{name}: {value}\n")

    if asked.folder.exists():
        parser.error(f"{asked.folder} is there already: name a new folder")
    try:
        _built(asked.folder / "big", points, asked.rows, say)
        with get_context("spawn").Pool(1) as pool:
            for line in pool.apply(_served, (asked.folder / "big", points.asking_captions)):
                say(*line)
        _grown(asked.folder / "small", points, asked.additions, say)
        _living(asked.folder / "big", points, asked.additions, asked.clients, say)
    finally:
        shutil.rmtree(asked.folder, ignore_errors=True)
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores, load {about['load']}; {points.name}")
    print(table(("", ""), lines))


def _built(folder: Path, points: source.Source, rows: int, say: Callable[[str, str], None]) -> None:
    from benchmarks.search.growth import Growth

    making = 0.0

    def images(done: int) -> Iterator[tuple[list[ImageRow], Points]]:
        nonlocal making
        blocks = Growth(points.images).blocks(rows, done)
        while True:
            started = time.perf_counter()
            at, block = next(blocks, (0, None))
            making += time.perf_counter() - started
            if block is None:
                return
            yield [_row(id_) for id_ in range(at, at + len(block))], block

    started = time.perf_counter()
    build(
        folder, _model(points), images, lambda _done: iter(()), source="lifecycle", total=rows
    ).close()
    took = time.perf_counter() - started - making
    say("rows built", f"{rows:,}")
    say("rows built per second", f"{rows / took:,.0f}")
    say("peak memory while building", _megabytes(_peak()))


def _grown(
    folder: Path, points: source.Source, additions: int, say: Callable[[str, str], None]
) -> None:
    """One picture after another into an empty index, nothing merged: what segments cost."""
    query = points.asking_captions[0]
    with Index.create(folder, _model(points)) as index:
        took = []
        for id_ in range(additions):
            row = points.images[[id_ % len(points.images)]]
            started = time.perf_counter()
            index.add([_row(id_)], row)
            took.append(time.perf_counter() - started)
            if id_ + 1 in KEPT:
                say(f"search over {id_ + 1:,} segments", _milliseconds(_medians(index, query)))
        say("one addition, alone", _milliseconds(float(np.median(took))))
        segments = len(index.info().segments)
        merging = _seconds(lambda: index.compact(everything))
        say(f"merging {segments:,} segments into one", f"{merging:.2f} s")
        say("search after that", _milliseconds(_medians(index, query)))


def _served(folder: Path, queries: Points) -> list[tuple[str, str]]:
    """What a fresh process holds that has searched all queries, certified."""
    started = _resident()
    with Index.open(folder, verify="sizes") as index:
        for query in queries[:SEARCHES]:
            index.search("image", query, HITS)
        searched = _resident()
        index.let_go()
        rested = _resident()
        needed = index.info().resident
    lines = [("resident by 'hasse index info'", _megabytes(needed))]
    for name in ("RssAnon", "RssFile"):
        sizes = (rss[name] for rss in (started, searched, rested))
        lines.append((f"{name}: imported , searched , let go", " , ".join(map(_megabytes, sizes))))
    return lines


def _living(
    folder: Path,
    points: source.Source,
    additions: int,
    clients: int,
    say: Callable[[str, str], None],
) -> None:
    """Searches from many clients, first alone, then while pictures are added one by one."""
    asked = points.asking_captions
    # As in the service: clients wait for one thread that searches.
    with Index.open(folder, verify="sizes") as index, ThreadPoolExecutor(1) as searcher:
        first = index.info().images
        done = threading.Event()

        def search(number: int, most: float = float("inf")) -> list[float]:
            took: list[float] = []
            while not done.is_set() and len(took) < most:
                query = asked[(number + clients * len(took)) % len(asked)]
                started = time.perf_counter()
                searcher.submit(index.search, "image", query, HITS).result()
                took.append(time.perf_counter() - started)
            return took

        with ThreadPoolExecutor(clients) as pool:
            alone = list(pool.map(lambda at: search(at, SEARCHES // clients), range(clients)))
        quiet = _tail(alone)
        say(f"{clients} clients search: p50, p95", ", ".join(map(_milliseconds, quiet)))

        upkeep = Upkeep(index, 1.0)
        upkeep.start()
        missed = 0
        with ThreadPoolExecutor(clients) as pool:
            searching = [pool.submit(search, at) for at in range(clients)]
            started = time.perf_counter()
            for id_ in range(first, first + additions):
                point = asked[[id_ % len(asked)]]
                index.add([_row(id_)], point)
                found = searcher.submit(index.search, "image", point[0], HITS + additions)
                missed += id_ not in found.result().ids
            took = time.perf_counter() - started
            done.set()
            busy = _tail([job.result() for job in searching])
        upkeep.close()
        say("additions per second meanwhile", f"{additions / took:,.1f}")
        say("additions not found by the next search", f"{missed:,}")
        say("searches meanwhile: p50, p95", ", ".join(map(_milliseconds, busy)))
        say("p95 meanwhile, of the one before", f"{busy[1] / quiet[1]:.2f} x")
        say("segments, merged in the background", f"{len(index.info().segments)}")
        index.compact(everything)
        say("segments after 'compact'", f"{len(index.info().segments)}")


def _model(points: source.Source) -> ModelIdentity:
    return ModelIdentity(points.name, "0" * 64, points.dimension, "order")


def _row(id_: int) -> ImageRow:
    return ImageRow(id_, f"{id_}.jpg", f"{id_}.jpg")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _medians(index: Index, query: Points) -> float:
    return float(
        np.median([_seconds(lambda: index.search("image", query, HITS)) for _ in range(25)])
    )


def _tail(took: Iterable[list[float]]) -> tuple[float, float]:
    p50, p95 = np.percentile(np.concatenate([np.array(part) for part in took]), [50, 95])
    return float(p50), float(p95)


def _resident() -> dict[str, int]:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    sizes = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Rss"))
    return {name: 1024 * int(size.split()[0]) for name, size in sizes.items()}


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


if __name__ == "__main__":
    main()
