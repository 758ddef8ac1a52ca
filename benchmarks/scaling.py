"""How time and memory grow with the rows of an index, from a thousand to ten million.

    python -m benchmarks.scaling FOLDER --points POINTS [--rows 1000 10000 100000 1000000]

POINTS is a folder that `benchmarks.search` writes; the rows are its real images, then grown from
them. Each step of each size runs in a process of its own, with one thread, and takes processor
seconds, which other work on the machine changes little, and the peak of resident memory above what
the process held before. Beside each figure stands the exponent of the growth since the size before:
1 where ten times the rows cost ten times as much. FOLDER keeps the indexes and the figures, so that
a run that was stopped goes on, and `--steps` measures some steps again. With `--memory-gb`, which
takes root, no process holds more than that, what it maps included. With `--bare`, which takes a
tenth of the time, the catalog has no row for each image, as a shard's.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, TypeAlias

import numpy as np

from benchmarks.learning.scarcity import limited
from benchmarks.report import machine, parser_of, table
from benchmarks.search import processes
from benchmarks.search.growth import BLOCK, Growth
from hasse.index.search.compiling import compile_kernels
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ROWS_PER_SEGMENT, everything
from hasse.index.segments.file_checks import FileChecks
from hasse.index.segments.segment import SegmentWriter
from hasse.index.store import Index
from hasse.index.types import (
    FolderRow,
    Ids,
    ImageRow,
    Metadata,
    ModelIdentity,
    PathRow,
    Points,
)
from hasse.models.images.sidecars import stamp_of
from hasse.models.score import Score

HITS, BATCH, QUERIES, ADDITIONS = 10, 32, 64, 8
PIECE = 1 << 16  # rows of one change, or a tenth of all
MOST_FILES = 1_000_000  # a folder of more is not made
_LEAST = {"s": 0.01, "MB": 4.0}  # of figures less than these, the growth is noise

Figures: TypeAlias = dict[str, list[float]]  # by name: processor seconds, MB


@dataclass(frozen=True, slots=True)
class Task:
    """What a step works on: an index that is to have so many rows, and where the points are."""

    folder: Path
    rows: int
    score: Score
    real: Points
    queries: Points
    bare: bool
    group: Path | None

    @property
    def pictures(self) -> Path:
        """The folder of files that the index follows."""
        return self.folder.with_name(f"{self.rows}-pictures")

    @property
    def has_pictures(self) -> bool:
        """Whether there is such a folder."""
        return not self.bare and self.rows <= MOST_FILES


class Measured:
    """Processor seconds and peak memory of a block, in a process that did nothing else."""

    def __init__(self) -> None:
        self.seconds = self.paused = 0.0
        self.megabytes = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the block."""
        Path("/proc/self/clear_refs").write_text("5")  # begins the peak anew
        before, began = processes.memory("VmRSS"), time.process_time()
        yield
        self.seconds = time.process_time() - began - self.paused
        self.megabytes = max(0, processes.memory("VmHWM") - before) / 1e6

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out the time of the block."""
        began = time.process_time()
        yield
        self.paused += time.process_time() - began

    def figure(self, each: int = 1) -> list[float]:
        """Return the seconds of each of several, and the memory."""
        return [self.seconds / each, self.megabytes]


def add(task: Task) -> Figures:
    """Add all rows, as changes of a tenth of them or of `PIECE`."""
    shutil.rmtree(task.folder, ignore_errors=True)
    measured, piece = Measured(), max(1, min(task.rows // 10, PIECE))
    if task.bare:
        return {"write all segments": _build(task, measured)}
    with Index.create(task.folder, _identity(task), threads=1) as index, measured.running():
        folders = [_followed(task)] if task.has_pictures else []
        for at in range(0, task.rows, piece):
            with measured.pause():
                change = _change(task, range(at, min(at + piece, task.rows)), folders)
            index.change(change)
    return {"add all rows": measured.figure()}


def _build(task: Task, measured: Measured) -> list[float]:
    """Write full segments of which the catalog has no rows, as of a shard."""
    with (
        Index.create(task.folder, _identity(task), threads=1) as index,
        measured.running(),
        index.writing() as writer,
    ):
        records, segment = [], None
        for at in range(0, task.rows, BLOCK):
            with measured.pause():
                ids, points = _rows(task, range(at, min(at + BLOCK, task.rows)))
            if segment is None:
                place = writer.workspace()
                segment = SegmentWriter(place, "image", points.shape[1], task.score)
            segment.append(ids, points)
            if segment.rows >= ROWS_PER_SEGMENT or ids[-1] + 1 == task.rows:
                records += writer.publish((segment.folder, segment.seal()))
                segment = None
        writer.commit(records)
    return measured.figure()


def sync(task: Task) -> Figures:
    """Follow the folder, of which nothing has changed."""
    if not task.has_pictures:
        return {}
    from hasse.service.writing.folders.encoders import Encoders
    from hasse.service.writing.folders.scan import scan
    from hasse.service.writing.folders.sync import FolderSync

    measured = Measured()
    with _opened(task) as index, measured.running():
        locations = index.catalog.locations(index.folder)
        found = scan([task.pictures], locations=locations, index_folder=index.folder)
        counts = FolderSync(index, found, remove=True).apply(Encoders(_never, _never))
        if counts.present != task.rows:
            raise RuntimeError(f"of {task.rows:,} files {counts.present:,} are unchanged")
    return {"sync, nothing changed": measured.figure()}


def compact(task: Task) -> Figures:
    """Merge all segments into as few as can be."""
    if task.bare:
        return {}
    measured = Measured()
    with _opened(task) as index, measured.running():
        index.compact(everything)
    return {"compact": measured.figure()}


def open_(task: Task) -> Figures:
    """Open the index as a service does, then compare what it left out."""
    opening, comparing, ended = Measured(), Measured(), threading.Event()
    with opening.running():
        index = _opened(task)
    with index:
        count = (lambda: None) if task.bare else index.check_counts
        checks = FileChecks(lambda: index.snapshot, count, lambda *_: ended.set())
        if checks.bytes_left:
            with comparing.running():
                checks.start()
                ended.wait()
    return {"open": opening.figure(), "compare checksums, behind searches": comparing.figure()}


def search(task: Task) -> Figures:
    """Search one by one and in batches, certified, with all codes in memory."""
    figures: Figures = {}
    with _opened(task) as index:
        for name, size in (("search, certified", 1), (f"search, each of {BATCH}", BATCH)):
            measured = Measured()
            _search(index, task.queries, size)
            with measured.running():
                _search(index, task.queries, size)
            figures[name] = measured.figure(len(task.queries))
    return figures


def addition(task: Task) -> Figures:
    """Add one row after another while another thread searches."""
    measured, ended, took = Measured(), threading.Event(), list[float]()
    with _opened(task) as index:
        _search(index, task.queries, 1)
        first = max(task.rows, index.catalog.largest_ids()["image"] + 1)
        change = _change(task, range(first, first + ADDITIONS), [], files=False)

        def searching() -> None:
            while not ended.is_set():
                began = time.thread_time()
                _search(index, task.queries[:8], 1)
                took.append((time.thread_time() - began) / 8)

        with measured.running():
            beside = threading.Thread(target=searching)
            beside.start()
            began = time.thread_time()
            points = np.asarray(change.image_points)
            for at, row in enumerate(change.images):
                index.add([row], points[[at]])
            seconds = (time.thread_time() - began) / ADDITIONS
            ended.set()
            beside.join()
        found = index.search(Query("image", HITS), points[0])
        if first not in found.ids:
            raise RuntimeError("a row that was added is not found")
    memory = measured.megabytes
    return {
        "add one row, beside searches": [seconds, memory],
        "search beside it": [float(np.median(took)), memory],
    }


_STEPS = (add, sync, compact, open_, search, addition)
STEPS: dict[str, Callable[[Task], Figures]] = {of.__name__.strip("_"): of for of in _STEPS}


def run(step: str, task: Task) -> Figures:
    """Run a step in this process, as a member of the task's control group."""
    if task.group is not None:
        (task.group / "cgroup.procs").write_text(str(os.getpid()))
    # What is done once in each process is not measured.
    compile_kernels(task.score)
    with TemporaryDirectory() as folder:
        Index.create(Path(folder, "index"), _identity(task), threads=1).close()
    return STEPS[step](task)


def _identity(task: Task) -> ModelIdentity:
    return ModelIdentity("benchmark", "0" * 64, int(task.real.shape[1]), task.score)


def _opened(task: Task) -> Index:
    return Index.open(task.folder, verify="later", threads=1)


def _search(index: Index, queries: Points, size: int) -> None:
    for at in range(0, len(queries), size):
        for answer in index.search_batch(Query("image", HITS), queries[at : at + size]):
            if not answer.certified:
                raise RuntimeError("an answer is not certified")


def _followed(task: Task) -> FolderRow:
    """Make the folder, and return its row."""
    task.pictures.mkdir(exist_ok=True)
    beside = os.path.relpath(task.pictures, task.folder)
    path = str(task.pictures.resolve())
    return FolderRow(path, path, beside, task.pictures.stat().st_dev)


def _rows(task: Task, ids: range) -> tuple[Ids, Points]:
    """Return the ids and the points of rows."""
    blocks = [block for _, block in Growth(task.real).blocks(ids.stop, ids.start)]
    return np.arange(ids.start, ids.stop), np.concatenate(blocks)


def _change(task: Task, ids: range, folders: Sequence[FolderRow], *, files: bool = True) -> Change:
    """Return what adds rows, each with an empty file in the folder that is followed."""
    _, points = _rows(task, ids)
    names = [f"{at // 1000:05}/{at}.jpg" for at in ids]
    paths: dict[int, list[PathRow]] = {}
    where = f"{task.pictures.resolve()}/" if files and task.has_pictures else ""
    if where:
        for at, name in zip(ids, names, strict=True):
            file = Path(where, name)
            file.parent.mkdir(exist_ok=True)
            file.touch()
            of = file.stat()
            stamp = (of.st_size, of.st_mtime_ns, of.st_ctime_ns)
            paths[at] = [PathRow(at, f"{where}{name}", where.rstrip("/"), *stamp)]
    rows = [
        ImageRow(at, name, f"{where}{name}", sha256=f"{at:064x}")
        for at, name in zip(ids, names, strict=True)
    ]
    said = {at: Metadata(sidecars=stamp_of([])) for at in paths}
    return Change(rows, points, paths=paths, folders=folders, metadata=said)


def _unit(points: Points) -> Points:
    """Return points of length 1, as those of the models that are built in."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.ascontiguousarray(points / np.maximum(lengths, 1e-30))


def _never() -> NoReturn:
    raise RuntimeError("nothing is to be encoded")


def grown(figures: dict[int, Figures]) -> str:
    """Return the table of all sizes, each figure with the exponent of its growth."""
    sizes = sorted(figures)
    names = dict.fromkeys(name for size in sizes for name in figures[size])
    rows = []
    for name in names:
        for at, unit in enumerate(_LEAST):
            values = [figures[size].get(name, [math.nan] * 2)[at] for size in sizes]
            cells = [_shown(value, unit) for value in values]
            for number in range(1, len(sizes)):
                ratio, before = sizes[number] / sizes[number - 1], values[number - 1]
                cells[number] += _exponent(ratio, before, values[number], unit)
            rows.append([name if unit == "s" else "", *cells])
    return table(["", *(f"{size:,} rows" for size in sizes)], rows)


def _shown(value: float, unit: str) -> str:
    if math.isnan(value):
        return ""
    if unit == "s" and value < 1:
        return f"{1e3 * value:,.2f} ms"
    return f"{value:,.1f} s" if unit == "s" else f"{value:,.0f} MB"


def _exponent(ratio: float, before: float, after: float, unit: str) -> str:
    # A search is measured as the sum of many.
    least = _LEAST[unit] / (QUERIES if unit == "s" else 1)
    if not (before >= least and after >= least):
        return ""
    return f" ({math.log(after / before, ratio):.2f})"


def main(arguments: list[str] | None = None) -> None:
    """Run all steps that are asked for and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**n for n in range(3, 7)])
    parser.add_argument("--steps", nargs="+", choices=STEPS, help="measure these again")
    parser.add_argument("--score", choices=("order", "cosine"), default="order")
    parser.add_argument("--dimension", type=int, help="take so many of the coordinates")
    parser.add_argument("--bare", action="store_true", help="no rows in the catalog")
    parser.add_argument("--memory-gb", type=float)
    asked = parser.parse_args(arguments)
    # Not above: torch comes with it, and the processes that are measured do without.
    from benchmarks.search import source

    points, at = source.load(asked.points), machine()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "figures.json"
    figures: dict[int, Figures] = {}
    if known.exists():
        kept = json.loads(known.read_text(encoding="utf-8"))
        figures = {int(size): each for size, each in kept.items()}
    part = slice(0, asked.dimension)
    for rows in asked.rows:
        place = folder / str(rows)
        for step in STEPS if rows not in figures else asked.steps or ():
            limit = (
                nullcontext() if asked.memory_gb is None else limited(int(asked.memory_gb * 1e9))
            )
            with limit as group:
                task = Task(
                    place,
                    rows,
                    asked.score,
                    _unit(points.images[:, part]),
                    _unit(points.asking_captions[:QUERIES, part]),
                    asked.bare,
                    group,
                )
                found = processes.alone(run, step, task)
            figures.setdefault(rows, {}).update(found)
            sys.stderr.write(f"{rows:,}: {step} {found}\n")
            known.write_text(json.dumps(figures), encoding="utf-8")
    dimension = asked.dimension or points.dimension
    print(f"\n{asked.score}, {dimension} coordinates, {points.name}\n{at}\n\n{grown(figures)}")


if __name__ == "__main__":
    main()
