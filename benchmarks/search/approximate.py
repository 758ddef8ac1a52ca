"""Approximate contenders. Those that rank by inner product re-rank what they find exactly.

Each has a setting that trades time for recall; `benchmarks.search.tuning` turns it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import faiss as _faiss
import numba as _numba
import numpy as np

from benchmarks.search.clock import Clock
from benchmarks.search.kernels import violations
from index.search.top_k import TopK
from index.types import Ids, Kind, Points

faiss: Any = _faiss
numba: Any = _numba

LINKS = 32  # of a row in a graph: what FAISS calls M, USearch twice its connectivity
TRAINING_ROWS_PER_LIST = 40
ROUNDS = 10  # of k-means


class Reranked:
    """A FAISS index whose candidates are scored exactly by their violations."""

    def __init__(self, points: Points, kind: Kind, k: int, threads: int) -> None:
        self.build_seconds = 0.0
        self.setting = ""
        self._points, self._kind, self._k = points, kind, k
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def candidates(self, queries: Points) -> Ids:
        """Return likely rows (B, C), -1 where there are no more."""
        raise NotImplementedError

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        found = self.candidates(queries)
        if self._pool is None or len(queries) < 2:
            ids = [self._best(*pair) for pair in zip(queries, found, strict=True)]
        else:
            ids = list(self._pool.map(self._best, queries, found))
        return np.stack(ids)

    def _best(self, query: Points, found: Ids) -> Ids:
        rows = found[found >= 0]
        best = TopK(1, self._k)
        theirs = violations(self._points, rows, query, self._kind)
        best.add(rows, np.array([0, len(rows)]), theirs)
        (hits,) = best.hits()
        ids = hits.ids
        return np.pad(ids, (0, self._k - len(ids)), constant_values=-1)


class Graph(Reranked):
    """FAISS HNSW over inner products; `effort` is efSearch, and all it finds is re-ranked."""

    name = "FAISS HNSW"

    def __init__(
        self, index: Any, build_seconds: float, points: Points, kind: Kind, k: int, threads: int
    ) -> None:
        super().__init__(points, kind, k, threads)
        self.build_seconds = build_seconds
        self._index = index
        self.set(k)

    def set(self, effort: int) -> None:
        """Choose how many rows the search keeps in view."""
        self._effort = effort
        self.setting = f"M {LINKS}, efSearch {effort}, all re-ranked"

    def candidates(self, queries: Points) -> Ids:
        """Return likely rows (B, C)."""
        parameters = faiss.SearchParametersHNSW(efSearch=self._effort)
        found: Ids = self._index.search(queries, self._effort, params=parameters)[1]
        return found

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the points it compared with the query, by FAISS's own count."""
        faiss.cvar.hnsw_stats.reset()
        found = self.candidates(queries)
        rows = faiss.cvar.hnsw_stats.ndis + (found >= 0).sum()
        return float(4 * queries.shape[1] * rows / len(queries))


class Lists(Reranked):
    """FAISS IVF over bytes by inner product; `effort` is nprobe."""

    name = "FAISS IVF"

    def __init__(self, points: Points, kind: Kind, k: int, threads: int, clock: Clock) -> None:
        super().__init__(points, kind, k, threads)
        rows, dimension = points.shape
        self.lists = max(1, round(4 * rows**0.5))
        self._index = faiss.index_factory(
            dimension, f"IVF{self.lists},SQ8", faiss.METRIC_INNER_PRODUCT
        )
        self._index.cp.spherical = True
        self._index.cp.niter = ROUNDS
        self._index.cp.min_points_per_centroid = 1
        began = clock()
        sample = min(rows, TRAINING_ROWS_PER_LIST * self.lists)
        chosen = np.random.default_rng(0).choice(rows, sample, replace=False)
        self._index.train(points[np.sort(chosen)])
        self._index.add(points)
        self.build_seconds = clock() - began
        self.set(1, k)

    def set(self, effort: int, count: int) -> None:
        """Choose how many lists are searched and how many candidates come of it."""
        self._probed, self._count = min(effort, self.lists), count
        self.setting = f"IVF{self.lists},SQ8, nprobe {self._probed}, {count} re-ranked"

    def candidates(self, queries: Points) -> Ids:
        """Return likely rows (B, C)."""
        parameters = faiss.SearchParametersIVF(nprobe=self._probed)
        found: Ids = self._index.search(queries, self._count, params=parameters)[1]
        return found

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of centroids, codes and points it looked at, by FAISS's own count."""
        faiss.cvar.indexIVF_stats.reset()
        found = self.candidates(queries)
        codes = faiss.cvar.indexIVF_stats.ndis / len(queries)
        points = self.lists + (found >= 0).sum() / len(queries)
        return float(queries.shape[1] * (codes + 4 * points))


class USearch:
    """USearch with the violation itself as a numba metric; `effort` is its expansion."""

    name = "USearch, numba metric"

    def __init__(self, points: Points, kind: Kind, k: int, threads: int, clock: Clock) -> None:
        """Build the graph.

        Raises:
            ImportError: USearch is not installed.
        """
        from usearch import index as _usearch

        usearch: Any = _usearch
        rows, dimension = points.shape
        # The metric has to live as long as the index: it is an address in memory.
        self._metric = _metric(dimension, kind)
        self._k, self._threads = k, threads
        self._index: Any = usearch.Index(
            ndim=dimension,
            dtype="f32",
            connectivity=LINKS // 2,
            metric=usearch.CompiledMetric(
                pointer=self._metric.address,
                kind=usearch.MetricKind.Unknown,
                signature=usearch.MetricSignature.ArrayArray,
            ),
        )
        began = clock()
        self._index.add(np.arange(rows, dtype=np.uint64), points, threads=threads)
        self.build_seconds = clock() - began
        self.set(k)

    def set(self, effort: int) -> None:
        """Choose how many rows the search keeps in view."""
        self._index.expansion_search = effort
        self.setting = f"connectivity {LINKS // 2}, expansion {effort}"

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        keys = self._index.search(queries, self._k, threads=self._threads).keys
        return np.asarray(keys).astype(np.int64).reshape(len(queries), self._k)

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the points it compared with the query, by its own count."""
        matches = self._index.search(queries, self._k, threads=self._threads)
        return float(4 * queries.shape[1] * matches.computed_distances / len(queries))


def _metric(dimension: int, kind: Kind) -> Any:
    # USearch compares a query (first) with rows, and while it builds, rows with rows.
    first_above = kind == "image"
    pointer = numba.types.CPointer(numba.types.float32)

    def metric(a: Any, b: Any) -> Any:
        first, second = numba.carray(a, (dimension,)), numba.carray(b, (dimension,))
        total = np.float32(0)
        for j in range(dimension):
            gap = first[j] - second[j] if first_above else second[j] - first[j]
            gap = max(gap, np.float32(0))
            total += gap * gap
        return total

    return numba.cfunc(numba.types.float32(pointer, pointer), fastmath=True)(metric)
