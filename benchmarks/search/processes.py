"""Building and serving an index in processes of their own, so that their memory can be told."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchmarks.search.clock import CLOCKS, ClockName
from benchmarks.search.growth import Growth
from hasse.index.bounds.files import CODES, COLUMNS
from hasse.index.build import build as build_index
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Ids, ImageRow, Kind, ModelIdentity, Points

P = ParamSpec("P")
R = TypeVar("R")

_SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Building:
    """What building took. The time that growing the points took is not counted."""

    rows_per_second: float
    seconds: float
    peak_bytes: int  # of anonymous memory, over what the process needs to start


@dataclass(frozen=True, slots=True)
class Serving:
    """What a fresh process needs to answer certified searches.

    `start_bytes` are resident before the index is opened: the interpreter and the libraries.
    `resident_bytes` are resident after the searches, mapped files included, and `rested_bytes`
    when the points that were read are given back, as a service does every few seconds.
    `code_bytes` is the size of all lower bounds.
    """

    start_bytes: int
    resident_bytes: int
    rested_bytes: int
    code_bytes: int
    anonymous_bytes: int
    open_seconds: float


def alone(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a fresh process and return its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def build(
    folder: Path,
    real: Points,
    rows: int,
    kind: Kind,
    seed: int,
    threads: int | None,
    clock_name: ClockName,
) -> Building:
    """Build an index of `rows` rows of one kind, grown from real ones."""
    clock = CLOCKS[clock_name]
    identity = ModelIdentity("benchmark", "0" * 64, int(real.shape[1]), "order")
    growth, growing = Growth(real, seed), 0.0

    def grown(start: int) -> Iterator[tuple[range, Points]]:
        nonlocal growing
        blocks = growth.blocks(rows, start)
        while True:
            began = clock()
            block = next(blocks, None)
            growing += clock() - began
            if block is None:
                return
            yield range(block[0], block[0] + len(block[1])), block[1]

    def changes(done: Mapping[Kind, Ids]) -> Iterator[Change]:
        # Captions are of an image; which one makes no difference to a search.
        if kind == "caption" and not len(done["image"]):
            yield Change([ImageRow(0, "0.jpg", "0.jpg")], real[:1])
        for numbers, points in grown(len(done[kind])):
            if kind == "image":
                yield Change([ImageRow(at, f"{at}.jpg", f"{at}.jpg") for at in numbers], points)
            else:
                rows = [CaptionRow(at, 0, f"caption {at}") for at in numbers]
                yield Change(captions=rows, caption_points=points)

    start = memory("RssAnon")
    with Peak() as peak:
        began = clock()
        build_index(
            folder, identity, changes, source="benchmark", total=rows, threads=threads
        ).close()
        seconds = clock() - began - growing
    return Building(rows / seconds, seconds, peak.bytes - start)


def serve(folder: Path, queries: Points, kind: Kind, k: int, threads: int | None) -> Serving:
    """Open an index, answer every query once, certified, and measure the memory."""
    start = memory("VmRSS")
    began = time.perf_counter()
    with Index.open(folder, verify="sizes", threads=threads) as index:
        opened = time.perf_counter() - began
        for query in queries:
            index.search(Query(kind, k), query)
        searched = memory("VmRSS")
        index.release_memory()
        files = [live.segment.record.files for live in index.snapshot.segments_of(kind)]
        codes = sum(some[name].bytes for some in files for name in (COLUMNS, CODES) if name in some)
        return Serving(start, searched, memory("VmRSS"), codes, memory("RssAnon"), opened)


class Peak:
    """The most anonymous memory this process held, looked at many times a second."""

    def __init__(self) -> None:
        self.bytes = memory("RssAnon")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self.bytes = max(self.bytes, memory("RssAnon"))


def read_bytes() -> int:
    """Return how many bytes this process has had brought from the disk."""
    return _told("io", "read_bytes")


def memory(name: str) -> int:
    return 1024 * _told("status", name)


def _told(file: str, name: str) -> int:
    for line in Path("/proc/self", file).read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/{file} does not tell {name}: run this on Linux")
