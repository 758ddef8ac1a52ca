"""How fast is a certified search by the cosine, beside `faiss.IndexFlatIP`?

    python -m benchmarks.search.cosine vectors.npy

`vectors.npy` holds real embeddings, one a row: points of unit length are made of them, some of
which ask. Contenders take turns, query by query, with one thread each. Every certified answer is
compared with the exact one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import faiss
import numpy as np

from benchmarks.report import machine, parser_of, table
from benchmarks.search.clock import CLOCKS
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import search
from hasse.index.segments.segment import Segment, write_segment
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import ModelIdentity, Points


def measure(
    points: Points, queries: Points, folder: Path, k: int, clock: Callable[[], float]
) -> list[tuple[str, float, float]]:
    """Return names, median milliseconds, and medians of the rows that were scored exactly."""
    count, dimension = points.shape
    record = write_segment(folder, "caption", "cosine", np.arange(count), points)
    segment = Segment.open(folder, record, "sizes")
    now = Snapshot(
        1, ModelIdentity("", "", dimension, "cosine"), (LiveSegment.all_live(segment),), None
    )
    flat = faiss.IndexFlatIP(dimension)
    flat.add(points)
    workers = Workers(1)
    times: dict[str, list[float]] = {name: [] for name in ("flat", "exact", "certified")}
    scored = []

    def timed(name: str, one: Points) -> Answer | None:
        began = clock()
        if name == "flat":
            flat.search(one, k)
            answer = None
        else:
            mode = "exact" if name == "exact" else "certified"
            (answer,) = search(now, one, Query("caption", k, mode), workers)  # type: ignore[arg-type]
        times[name].append(clock() - began)
        return answer

    for at in range(-3, len(queries)):  # the first rounds warm up
        one = queries[max(at, 0)][None]
        _, exact, certified = (timed(name, one) for name in times)
        assert exact is not None
        assert certified is not None
        assert certified.certified
        assert np.array_equal(exact.ids, certified.ids), "a certified answer is not the exact one"
        assert np.array_equal(exact.violations, certified.violations)
        scored.append(certified.rescored)
    rows = {"flat": count, "exact": count, "certified": float(np.median(scored[3:]))}
    names = {"flat": "faiss.IndexFlatIP", "exact": "exact", "certified": "certified"}
    return [
        (names[name], 1000 * float(np.median(taken[3:])), rows[name])
        for name, taken in times.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("vectors", type=Path, help="an .npy file of embeddings, one a row")
    parser.add_argument("--queries", type=int, default=200, help="rows that ask, and are no hits")
    parser.add_argument("--k", type=int, default=10, help="hits")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    options = parser.parse_args(arguments)
    vectors = np.load(options.vectors, allow_pickle=False).astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    vectors = vectors[np.random.default_rng(0).permutation(len(vectors))]
    queries, points = vectors[: options.queries], vectors[options.queries :]
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(
            np.ascontiguousarray(points), queries, Path(folder), options.k, CLOCKS[options.clock]
        )
    print(f"{len(points):,} x {points.shape[1]}, {options.queries} queries, k = {options.k}")
    print(f"one thread, {options.clock} clock, {machine()}\n")
    print(
        table(
            ("", "ms", "beside flat", "rows scored"),
            [
                (name, f"{took:.2f}", f"{rows[0][1] / took:.1f} x", f"{scored:,.0f}")
                for name, took, scored in rows
            ],
        )
    )


if __name__ == "__main__":
    main()
