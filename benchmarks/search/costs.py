"""Measure the constants of `index.segments.cost_model`: python -m benchmarks.search.costs POINTS

POINTS is a folder that `benchmarks.search` writes; its points are grown to several sizes, and both
ways to search are timed at each, beside the way that the plan takes. The constants are the lines
through these times. One thread, processor time of that thread: what else runs on the machine
disturbs the figures, but its turns are not counted.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.report import parser_of
from benchmarks.search import source
from benchmarks.search.growth import Growth
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Query
from hasse.index.search.search import is_scanned, score_rows, search
from hasse.index.segments.cost_model import Costs, Thresholds
from hasse.index.segments.segment import Segment, write_segment
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Kind, Mode, ModelIdentity, Points
from hasse.models.score import Score

faiss: Any = _faiss

HITS = 10
ROWS = (4096, 8192, 16_384, 32_768, 65_536)
BATCHES = (1, 32)
SCORES: tuple[tuple[Kind, Score], ...] = (
    ("image", "order"),
    ("caption", "order"),
    ("image", "cosine"),
)
_CHOSEN = 128  # rows that a certified search scores to begin with
_CALLS = 15
_FREE = Costs(np.inf, np.inf, (0.0,) * 3, 0.0, 0.0)  # bounds at any size
_BOUNDED = Thresholds(bounds_from_bytes=1)


def main(given: list[str] | None = None) -> None:
    """Print what both ways take at each size, then the constants."""
    arguments = parser_of(__doc__)
    arguments.add_argument("points", type=Path, help="a folder of encoded points")
    points = source.load(arguments.parse_args(given).points)
    faiss.omp_set_num_threads(1)
    print(f"{platform.processor() or platform.machine()}, one thread, milliseconds a query")
    print(f"{'':>15} {'rows':>8} {'batch':>6} {'scan':>8} {'bounds':>8}  plan")
    with TemporaryDirectory() as folder:
        lines = [_measured(Path(folder), points, kind, score) for kind, score in SCORES]
    print(f"\n{'nanoseconds':>15} {'single':>8} {'batch':>9} {'bound':>8}   microseconds: ", end="")
    print(f"{'overhead':>8} {'candidate':>9}")
    print("\n".join(lines))


def _measured(folder: Path, points: source.Source, kind: Kind, score: Score) -> str:
    """Measure one orientation at all sizes; return its constants."""
    every = points.asking(kind)
    queries = np.ascontiguousarray(every[:: max(1, len(every) // max(BATCHES))][: max(BATCHES)])
    grown = np.concatenate([block for _, block in Growth(points.stored(kind)).blocks(max(ROWS))])
    took = np.full((len(ROWS), len(BATCHES), 2), np.nan)  # nanoseconds a query: scan, bounds
    for at, rows in enumerate(ROWS):
        place = folder / f"{kind}-{score}-{rows}"
        record = write_segment(place, kind, score, np.arange(rows), grown[:rows], _BOUNDED)
        live = LiveSegment.all_live(Segment.open(place, record, "sizes"))
        for way, batch in enumerate(BATCHES):
            took[at, way] = _ways(live, queries, batch)
            plan = "scan" if is_scanned(live, Query(kind, HITS), batch) else "bounds"
            scanned, bounded = took[at, way] / 1e6
            name = f"{kind}, {score}"
            print(f"{name:>15} {rows:>8,} {batch:>6} {scanned:>8.3f} {bounded:>8.3f}  {plan}")
    lines = np.array(
        [[_line(took[:, batch, way], points.dimension) for way in (0, 1)] for batch in (0, 1)]
    )
    row = _row(live, queries)
    beyond = (lines[:, 1, 1] - lines[:, 0, 1]).mean() / 1000 - _CHOSEN * row
    return (
        f"{kind + ', ' + score:>15} {lines[0, 0, 0]:>8.3f} {lines[1, 0, 0]:>9.3f} "
        f"{lines[:, 1, 0].mean():>8.4f}   {'':>13} {beyond:>8.0f} {row:>9.2f}"
    )


def _line(took: NDArray[np.float64], dimension: int) -> tuple[float, float]:
    """Return nanoseconds for each coordinate of each row, and those that any search takes."""
    if np.isnan(took).any():
        return np.nan, np.nan
    slope, fixed = np.polyfit(np.array(ROWS) * dimension, took, 1, w=1 / took)
    return float(slope), float(fixed)


def _ways(live: LiveSegment, queries: Points, batch: int) -> tuple[float, float]:
    """Return nanoseconds for each of `queries` (B, N): scanned, and by bounds if there are some."""
    scanned = _time(lambda: _search(live, queries, batch, "exact"))
    if live.segment.bounds is None:
        return scanned / len(queries), np.nan
    bounded = _time(lambda: _search(live, queries, batch, "certified"))
    return scanned / len(queries), bounded / len(queries)


def _search(live: LiveSegment, queries: Points, batch: int, mode: Mode) -> None:
    record = live.segment.record
    model = ModelIdentity("costs", "0" * 64, record.dimension, record.score)
    now, query = Snapshot(1, model, (live,)), Query(record.kind, HITS, mode)
    for at in range(0, len(queries), batch):
        search(now, queries[at : at + batch], query, Workers(1), costs=_FREE)


def _row(live: LiveSegment, queries: Points) -> float:
    """Return microseconds to fetch and score a row chosen here or there."""
    draw, segment = np.random.default_rng(0), live.segment

    def chosen() -> None:
        for query in queries:
            rows = Candidates.of([np.sort(draw.integers(0, segment.rows, _CHOSEN))])
            score_rows(segment.points, rows, query[None], segment.orientation, Workers(1))

    return _time(chosen) / len(queries) / _CHOSEN / 1000


def _time(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_CALLS):
        started = time.thread_time_ns()
        work()
        times.append(time.thread_time_ns() - started)
    return float(np.median(times))


if __name__ == "__main__":
    main()
