"""The engines that are measured: Hasse, two exact ones of FAISS, and its graph at our recall."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import faiss as _faiss
import numpy as np

from benchmarks.search.clock import Clock
from benchmarks.search.oracle import violations
from hasse.index.search.query import Query
from hasse.index.search.top_k import TopK
from hasse.index.store import Index
from hasse.index.types import Ids, Kind, Mode, Points

faiss: Any = _faiss

LINKS = 32  # of a row in a graph: what FAISS calls M
_LEVELS = 16  # groups of coordinates after which Panorama may leave a row
_PCA_ROWS = 16_384  # that the rotation is computed from
MOST_EFFORT = 4096


class Contender(Protocol):
    """Anything that returns the ids (B, k) of what it takes for the best rows."""

    name: str
    setting: str
    build_seconds: float

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        ...

    def bytes_per_query(self, queries: Points) -> float:
        """Return how much memory a query reads on average; NaN where it cannot be told."""
        ...


class Hasse:
    """One mode of the index."""

    build_seconds = 0.0

    def __init__(self, index: Index, kind: Kind, k: int, mode: Mode) -> None:
        self.name = f"hasse {mode}"
        self.setting = ""
        self.mode: Mode = mode
        self._index, self._kind, self._k = index, kind, k

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return np.stack([answer.ids for answer in answers])

    def bytes_per_query(self, queries: Points) -> float:
        """Return what the answers say was read of points and codes."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return float(np.mean([answer.work.bytes for answer in answers]))


class Flat:
    """`faiss.IndexFlatIP`: every row, by inner product, which is another question.

    A batch is a product of matrices, by BLAS, as FAISS computes it only where it is told to: its
    default is one row after the other, unless a batch is very large.
    """

    name = "faiss.IndexFlatIP"
    setting = ""
    build_seconds = 0.0

    def __init__(self, index: Any, k: int) -> None:
        self._index, self._k = index, k

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = 1 if len(queries) > 1 else before
        try:
            ids: Ids = self._index.search(queries, self._k)[1]
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
        return ids

    def bytes_per_query(self, _queries: Points) -> float:
        """Return the size of all points."""
        return float(4 * self._index.ntotal * self._index.d)


class Panorama:
    """`faiss.IndexFlatL2Panorama`: the nearest rows by distance, which is another question.

    After a rotation to principal components the first coordinates bound a distance from below, so
    that most rows are left early.
    """

    name = "faiss.IndexFlatL2Panorama"
    setting = f"PCA, {_LEVELS} levels"

    def __init__(self, points: Points, k: int, clock: Clock) -> None:
        began, dimension = clock(), points.shape[1]
        rotation = faiss.PCAMatrix(dimension, dimension)
        rotation.train(points[:: max(1, len(points) // _PCA_ROWS)])
        self._flat = faiss.IndexFlatL2Panorama(dimension, _LEVELS)
        self._index = faiss.IndexPreTransform(rotation, self._flat)
        self._index.add(points)
        self._k, self.build_seconds = k, clock() - began

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        ids: Ids = self._index.search(queries, self._k)[1]
        return ids

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the coordinates it compared with the query, by FAISS's own count."""
        faiss.cvar.indexPanorama_stats.reset()
        self.ask(queries)
        share = faiss.cvar.indexPanorama_stats.ratio_dims_scanned
        return float(4 * self._flat.ntotal * self._flat.d * share)


class Graph:
    """FAISS HNSW over inner products, whose candidates are scored exactly by their violations.

    `effort` is efSearch, the number of rows that a search keeps in view; all of them are scored.
    """

    name = "FAISS HNSW"

    def __init__(
        self, index: Any, build_seconds: float, points: Points, kind: Kind, k: int, threads: int
    ) -> None:
        self._index, self.build_seconds = index, build_seconds
        self._points, self._kind, self._k = points, kind, k
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.set(k)

    def set(self, effort: int) -> None:
        """Choose the effort."""
        self._effort = effort
        self.setting = f"M {LINKS}, efSearch {effort}, all re-ranked"

    def candidates(self, queries: Points) -> Ids:
        """Return likely rows (B, C), -1 where there are no more."""
        parameters = faiss.SearchParametersHNSW(efSearch=self._effort)
        ids: Ids = self._index.search(queries, self._effort, params=parameters)[1]
        return ids

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        found = self.candidates(queries)
        if self._pool is None or len(queries) < 2:
            ids = [self._best(*pair) for pair in zip(queries, found, strict=True)]
        else:
            ids = list(self._pool.map(self._best, queries, found))
        return np.stack(ids)

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the points it compared with the query, by FAISS's own count."""
        faiss.cvar.hnsw_stats.reset()
        found = self.candidates(queries)
        rows = faiss.cvar.hnsw_stats.ndis + (found >= 0).sum()
        return float(4 * queries.shape[1] * rows / len(queries))

    def _best(self, query: Points, candidates: Ids) -> Ids:
        rows = candidates[candidates >= 0]
        best = TopK(1, self._k)
        theirs = violations(self._points, rows, query, self._kind)
        best.add(rows, np.array([0, len(rows)]), theirs)
        (hits,) = best.hits()
        return np.pad(hits.ids, (0, self._k - len(hits.ids)), constant_values=-1)


def recall(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids (B, k) that were found (B, k)."""
    hits = sum(len(np.intersect1d(*pair)) for pair in zip(found, truth, strict=True))
    return float(hits / truth.size)


def tune_graph(contender: Graph, queries: Points, truth: Ids, wanted: float) -> bool:
    """Set the least effort that reaches the recall; False, and the most effort, if none does."""

    def reaches(effort: int) -> bool:
        contender.set(effort)
        return recall(contender.ask(queries), truth) >= wanted

    effort = least(reaches, truth.shape[1], MOST_EFFORT)
    contender.set(effort or MOST_EFFORT)
    return effort is not None


def least(reaches: Callable[[int], bool], first: int, last: int) -> int | None:
    """Return about the smallest number from `first` to `last` that suffices, or None."""
    low, high = first - 1, min(first, last)
    while not reaches(high):
        if high == last:
            return None
        low, high = high, min(2 * high, last)
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
