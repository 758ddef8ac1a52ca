"""The engines that are measured: Hasse, exact ones, and approximate ones tuned to a recall.

Those that rank by inner product re-rank what they find by exact violations.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import faiss as _faiss
import numba as _numba
import numpy as np
import torch

from benchmarks.search.clock import Clock
from benchmarks.search.oracle import violations
from hasse.index.search.query import Query
from hasse.index.search.top_k import TopK
from hasse.index.store import Index
from hasse.index.types import Ids, Kind, Mode, Points
from hasse.models.order import pairwise_violation

faiss: Any = _faiss

_TORCH_ROWS = 8192  # differences of so many rows exist at a time
numba: Any = _numba
_LEVELS = 16  # groups of coordinates after which Panorama may leave a row
_PCA_ROWS = 16_384  # that the rotation is computed from
LINKS = 32  # of a row in a graph: what FAISS calls M, USearch twice its connectivity
TRAINING_ROWS_PER_LIST = 40
ROUNDS = 10  # of k-means
MOST_EFFORT = 4096
COUNTS = (5, 10, 20, 40, 80, 160)  # candidates for each hit


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
            found: Ids = self._index.search(queries, self._k)[1]
        finally:
            faiss.cvar.distance_compute_blas_threshold = before
        return found

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
        found: Ids = self._index.search(queries, self._k)[1]
        return found

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the coordinates it compared with the query, by FAISS's own count."""
        faiss.cvar.indexPanorama_stats.reset()
        self.ask(queries)
        share = faiss.cvar.indexPanorama_stats.ratio_dims_scanned
        return float(4 * self._flat.ntotal * self._flat.d * share)


class PlainTorch:
    """The definition written in torch, block by block."""

    name = "torch"
    setting = "plain"
    build_seconds = 0.0

    def __init__(self, points: Points, kind: Kind, k: int) -> None:
        self._points, self._kind, self._k = torch.from_numpy(points), kind, k

    @torch.inference_mode()
    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        asked = torch.from_numpy(queries)
        parts = [self._violations(part, asked) for part in torch.split(self._points, _TORCH_ROWS)]
        found = torch.cat(parts, 1).topk(self._k, largest=False).indices
        return np.asarray(found.numpy(), np.int64)

    def bytes_per_query(self, _queries: Points) -> float:
        """Return the size of all points; what torch writes in between is more."""
        return float(4 * self._points.numel())

    def _violations(self, part: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        if len(asked) > 1:
            if self._kind == "image":
                return pairwise_violation(part, asked).T
            return pairwise_violation(asked, part)
        gap = asked - part if self._kind == "image" else part - asked
        return gap.clamp(min=0).square().sum(-1)[None]


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


def recall(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids (B, k) that were found (B, k)."""
    hits = sum(len(np.intersect1d(*pair)) for pair in zip(found, truth, strict=True))
    return float(hits / truth.size)


def tune_graph(contender: Graph | USearch, queries: Points, truth: Ids, wanted: float) -> bool:
    """Set the least effort that reaches the recall; False, and the most effort, if none does."""

    def reaches(effort: int) -> bool:
        contender.set(effort)
        return recall(contender.ask(queries), truth) >= wanted

    effort = least(reaches, truth.shape[1], MOST_EFFORT)
    contender.set(effort or MOST_EFFORT)
    return effort is not None


def tune_lists(contender: Lists, queries: Points, truth: Ids, wanted: float, clock: Clock) -> bool:
    """Set the quickest of several numbers of candidates, each with the least lists it needs."""
    quickest: tuple[float, int, int] | None = None

    def reaches(count: int, effort: int) -> bool:
        contender.set(effort, count)
        return recall(contender.ask(queries), truth) >= wanted

    for count in (of * truth.shape[1] for of in COUNTS):
        effort = least(partial(reaches, count), 1, contender.lists)
        if effort is not None:
            contender.set(effort, count)
            quickest = min(
                quickest or (np.inf, 0, 0), (_seconds(contender, queries, clock), effort, count)
            )
    _, effort, count = quickest or (0.0, contender.lists, COUNTS[-1] * truth.shape[1])
    contender.set(effort, count)
    return quickest is not None


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


def _seconds(contender: Contender, queries: Points, clock: Clock) -> float:
    spent = []
    for query in queries:
        began = clock()
        contender.ask(query[None])
        spent.append(clock() - began)
    return float(np.median(spent))
