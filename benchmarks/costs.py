"""Measure the constants of `index.plan` on this machine: python -m benchmarks.costs POINTS

POINTS is a folder that `benchmarks.search` writes; its points are grown to the sizes measured. Then
both ways to search are timed at several sizes, beside the one that the plan takes. One thread,
processor time of that thread: what else runs on the machine disturbs the figures, but its turns
are not counted.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss as _faiss
import numpy as np

import index.plan
from benchmarks.search import source
from benchmarks.search.growth import Growth
from index.hits import Hits
from index.plan import Costs
from index.query import Query
from index.scan import Workers, scan, score_rows
from index.search import is_bounded, search
from index.segment import Segment, write_segment
from index.snapshot import LiveSegment, Snapshot
from index.terms import KINDS, Kind, Mode, ModelIdentity, Points

faiss: Any = _faiss

HITS = 10
ROWS = (4096, 8192, 16_384, 32_768, 65_536)  # the constants are measured on the last
BATCHES = (1, 32)
_CHOSEN = 128  # rows that a certified search scores to begin with
_CALLS = 15
_FREE = Costs((np.inf,) * 3, (np.inf,) * 3, (0.0,) * 3, 0.0, 0.0)  # bounds at any size


def main(given: list[str] | None = None) -> None:
    """Print the constants for each kind, then what both ways take at each size."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("points", type=Path, help="a folder of encoded points")
    points = source.load(arguments.parse_args(given).points)
    faiss.omp_set_num_threads(1)
    ways = []
    print(f"{platform.processor() or platform.machine()}, one thread, nanoseconds; microseconds")
    print(f"{'rows':>20} {'alone':>8} {'together':>9} {'codes':>8} {'search':>8} {'row':>6}")
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            asked = points.asking(kind)
            queries = np.ascontiguousarray(asked[:: max(1, len(asked) // max(BATCHES))])
            queries = queries[: max(BATCHES)]
            grown = np.concatenate(
                [block for _, block in Growth(points.stored(kind)).blocks(max(ROWS))]
            )
            for rows in ROWS:
                live = _segment(Path(folder) / f"{kind}-{rows}", kind, grown[:rows])
                ways += [_ways(live, queries, batch) for batch in BATCHES]
            print(f"{live.segment.rows:>12,} {kind:<7} {_line(live, queries)}")
    print(f"\n{'rows':>20} {'batch':>6} {'scan, ms':>9} {'bounds':>8}  plan")
    print("\n".join(ways))


def _segment(folder: Path, kind: Kind, points: Points) -> LiveSegment:
    record = write_segment(folder, kind, "order", np.arange(len(points)), points)
    return LiveSegment.whole(Segment.open(folder, record, "sizes"))


def _search(live: LiveSegment, queries: Points, batch: int, mode: Mode) -> None:
    model = ModelIdentity("costs", "0" * 64, queries.shape[1], "order")
    now, query = Snapshot(1, model, (live,)), Query(live.segment.record.kind, HITS, mode)
    for at in range(0, len(queries), batch):
        search(now, queries[at : at + batch], query, Workers(1))


def _ways(live: LiveSegment, queries: Points, batch: int) -> str:
    """Time both ways for `queries` (B, N), and say which one the plan takes."""
    record = live.segment.record
    plan = "bounds" if is_bounded(live, Query(record.kind, HITS), batch) else "scan"
    scanned = _time(lambda: _search(live, queries, batch, "exact"))
    kept, index.plan.COSTS = index.plan.COSTS, _FREE
    bounded = _time(lambda: _search(live, queries, batch, "certified"))
    index.plan.COSTS = kept
    each = [time / len(queries) / 1e6 for time in (scanned, bounded)]
    return f"{record.rows:>12,} {record.kind:<7} {batch:>6} {each[0]:>9.3f} {each[1]:>8.3f}  {plan}"


def _line(live: LiveSegment, queries: Points) -> str:
    segment, workers = live.segment, Workers(1)

    def whole(asked: Points) -> list[Hits]:
        return scan(
            segment.points,
            segment.ids,
            live.dead,
            asked,
            form=segment.form,
            k=HITS,
            limits=np.full(len(asked), np.inf),
            workers=workers,
        )

    size, count = segment.points.size, len(queries)
    bounds = segment.bounds
    if bounds is None:
        raise ValueError(f"a segment of {segment.rows} rows has no bounds: give larger points")
    alone = _time(lambda: [whole(query) for query in queries[:, None]]) / count
    together = _time(lambda: whole(queries)) / count
    limits = np.array([hits.violations[-1] for hits in whole(queries)], np.float64)

    def ruled_out(b: int) -> None:
        bounds.survivors(bounds.begin(queries[[b]]), live.dead, limits[[b]], workers)

    begun = _time(lambda: [bounds.begin(query) for query in queries[:, None]]) / count
    codes = _time(lambda: [ruled_out(b) for b in range(count)]) / count - begun
    draw = np.random.default_rng(0)

    def chosen(query: Points) -> None:
        rows = np.sort(draw.integers(0, segment.rows, _CHOSEN))
        score_rows(segment.points, rows, query, segment.form, workers)

    scored = _time(lambda: [chosen(query) for query in queries]) / count
    fixed = _time(lambda: _search(live, queries, 1, "certified")) / count - codes - scored
    return (
        f"{alone / size:8.3f} {together / size:9.3f} {codes / size:8.4f} {fixed / 1000:8.0f} "
        f"{scored / _CHOSEN / 1000:6.2f}"
    )


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
