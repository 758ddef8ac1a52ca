"""Measure the constants of `index.plan` on this machine: python -m benchmarks.costs INDEX

The stored points of the other kind are the queries, one thread, processor time of that thread:
what else runs on the machine disturbs the figures, but its turns are not counted.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from index.hits import Hits
from index.scan import Workers, scan, score_rows
from index.snapshot import LiveSegment
from index.store import Index
from index.terms import KINDS, Points

HITS = 10
_CHOSEN = 128  # rows that a certified search scores to begin with
_SINGLE = 15
_BATCH = 32


def main() -> None:
    """Print nanoseconds for one coordinate of one row, for each kind of stored rows."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("index", type=Path, help="an index with captions, the larger the better")
    folder = arguments.parse_args().index
    with Index.open(folder, verify="sizes", threads=1) as index:
        snapshot = index.snapshot
        print(
            f"{platform.processor() or platform.machine()}, one thread, nanoseconds; microseconds"
        )
        print(f"{'rows':>20} {'alone':>8} {'together':>9} {'codes':>8} {'search':>8} {'row':>6}")
        for kind, other in zip(KINDS, reversed(KINDS), strict=True):
            live, asked = (max(snapshot.of(k), key=lambda one: one.live) for k in (kind, other))
            points = asked.segment.points
            queries = np.array(points[:: max(1, len(points) // _BATCH)][:_BATCH])
            print(f"{live.segment.rows:>12,} {kind:<7} {_line(index, live, queries)}")


def _line(index: Index, live: LiveSegment, queries: Points) -> str:
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

    size = segment.points.size
    alone, together = _time(lambda: whole(queries[:1])), _time(lambda: whole(queries))
    line = f"{alone / size:8.3f} {together / size / len(queries):9.3f}"
    bounds = segment.bounds
    if bounds is None:
        return f"{line}        -        -      -"
    limits = whole(queries[:1])[0].violations[-1:].astype(np.float64)
    begun = _time(lambda: bounds.begin(queries[:1]))
    codes = _time(lambda: bounds.survivors(bounds.begin(queries[:1]), live.dead, limits, workers))
    draw = np.random.default_rng(0)
    row = _time(
        lambda: score_rows(
            segment.points,
            np.sort(draw.integers(0, segment.rows, _CHOSEN)),
            queries[0],
            segment.form,
            workers,
        )
    )
    search = _time(lambda: index.search(segment.record.kind, queries[0], HITS))
    fixed = search - (codes - begun) - row
    return f"{line} {(codes - begun) / size:8.4f} {fixed / 1000:8.0f} {row / _CHOSEN / 1000:6.2f}"


def _time(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_SINGLE):
        started = time.thread_time_ns()
        work()
        times.append(time.thread_time_ns() - started)
    return float(np.median(times))


if __name__ == "__main__":
    main()
