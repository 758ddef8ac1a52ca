"""The engines of FAISS, each set to what it does best.

FAISS ranks by inner product or distance, which is another question than the order. Engines that
return only likely rows take part twice: with their own hits, and with candidates among which the
hits of the order are found by their exact violations. Either way they get the least effort that
reaches their recall of the exact hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import faiss as _faiss
import numpy as np

from benchmarks.search.clock import Clock
from benchmarks.search.contenders import ORDER, Contender, least, recall
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.search.search import score_rows
from hasse.index.search.top_k import TopK
from hasse.index.types import Ids, Kind, Orientation, Points

faiss: Any = _faiss

GRAPH_ROWS = 150_000  # no graph (HNSW) is built over more rows: it takes long
LINKS = 32  # of a row in a graph: what FAISS calls M
MOST_EFFORT = 4096
# The recall of its exact hits that an engine is set to. A graph may find all, codes rarely do.
HNSW, CODES = "FAISS HNSW", "faiss.IndexRefineFlat"
RECALLS: Mapping[str, float] = {HNSW: 1.0, CODES: 0.999}

_PRODUCT = "inner product"
_LEVELS = (8, 16, 32)  # groups of coordinates after which Panorama may leave a row
_TRIED_ROWS = 16_384  # rows that settings are tried on, and that PCA and codebooks are learned from
_TRIED_CALLS = 5
_CODED_TOGETHER = 2  # coordinates of four bits


class Flat:
    """`faiss.IndexFlatIP`: every row. FAISS's way or BLAS's, whichever takes less for a batch.

    By default FAISS multiplies matrices only when a batch is very large
    (`faiss.cvar.distance_compute_blas_threshold`).
    """

    name = "faiss.IndexFlatIP"
    question = f"{_PRODUCT}, exactly"
    build_seconds = 0.0

    def __init__(self, index: Any, k: int, clock: Clock) -> None:
        self._index, self._k, self._clock = index, k, clock
        self._default = int(faiss.cvar.distance_compute_blas_threshold)
        self._thresholds: dict[int, int] = {}  # by the number of queries

    @property
    def setting(self) -> str:
        """From how many queries on BLAS takes less."""
        by_blas = [size for size, most in self._thresholds.items() if most != self._default]
        return f"BLAS from {min(by_blas)} queries on" if by_blas else "without BLAS"

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        size = len(queries)
        if size not in self._thresholds:
            ways = {most: self._seconds(queries, most) for most in (self._default, 1)}
            self._thresholds[size] = min(ways, key=ways.__getitem__)
        return self._search(queries, self._thresholds[size])

    def _seconds(self, queries: Points, threshold: int) -> float:
        return _least_seconds(lambda: self._search(queries, threshold), self._clock)

    def _search(self, queries: Points, threshold: int) -> Ids:
        faiss.cvar.distance_compute_blas_threshold = threshold
        try:
            ids: Ids = self._index.search(queries, self._k)[1]
        finally:
            faiss.cvar.distance_compute_blas_threshold = self._default
        return ids

    def bytes_per_query(self, _queries: Points) -> float:
        """Return the size of all points."""
        return float(4 * self._index.ntotal * self._index.d)


class Panorama:
    """`faiss.IndexFlatL2Panorama`: the nearest rows by distance, without reading all coordinates.

    After a rotation to principal components the first coordinates bound a distance from below.
    """

    name = "faiss.IndexFlatL2Panorama"
    question = "distance, exactly"

    def __init__(self, points: Points, queries: Points, k: int, clock: Clock) -> None:
        began, dimension = clock(), points.shape[1]
        self._k, self._rotation = k, faiss.PCAMatrix(dimension, dimension)
        some = points[:: max(1, len(points) // _TRIED_ROWS)]
        self._rotation.train(some)
        tried = {levels: self._built(some, levels) for levels in _LEVELS}
        taken = {levels: self._seconds(tried[levels], queries, clock) for levels in _LEVELS}
        levels = min(taken, key=taken.__getitem__)
        self.setting = f"PCA, {levels} levels"
        self._index = self._built(points, levels)
        self.build_seconds = clock() - began

    def _seconds(self, index: Any, queries: Points, clock: Clock) -> float:
        def work() -> None:
            for one in queries[:_TRIED_CALLS]:
                index.search(one[None], self._k)

        return _least_seconds(work, clock)

    def _built(self, points: Points, levels: int) -> Any:
        index = faiss.IndexPreTransform(
            self._rotation, faiss.IndexFlatL2Panorama(points.shape[1], levels)
        )
        index.add(points)
        return index

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        ids: Ids = self._index.search(queries, self._k)[1]
        return ids

    def bytes_per_query(self, queries: Points) -> float:
        """Return the size of the coordinates it compared with the query, by FAISS's own count."""
        faiss.cvar.indexPanorama_stats.reset()
        self.ask(queries)
        share = faiss.cvar.indexPanorama_stats.ratio_dims_scanned
        return float(4 * self._index.ntotal * self._index.d * share)


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """An index that returns likely rows; the more effort, the likelier.

    Attributes:
        name: of its class.
        setting: without the effort.
        effort: what FAISS calls it.
        build_seconds: what it took to build.
        search: returns as many rows of queries (B, N), -1 where there are fewer, at some effort.
    """

    name: str
    setting: str
    effort: str
    build_seconds: float
    search: Callable[[Points, int, int], Ids]


class Likely:
    """The hits of an engine by its own score, at the least effort that reaches its recall."""

    def __init__(self, engine: Engine, k: int) -> None:
        self._engine, self._k, self._effort = engine, k, k
        self.name, self.build_seconds = engine.name, engine.build_seconds
        self.question = f"{_PRODUCT}, recall {RECALLS[engine.name]:g}"

    @property
    def setting(self) -> str:
        """The index and its effort."""
        return f"{self._engine.setting}, {self._engine.effort} {self._effort}"

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        return self._engine.search(queries, self._k, self._effort)

    def bytes_per_query(self, _queries: Points) -> float:
        """Nothing is counted."""
        return float("nan")

    def tune(self, queries: Points, truth: Ids) -> str:
        """Set the least effort that reaches the recall; say why there is none, or nothing."""
        reached = 0.0

        def reaches(effort: int) -> bool:
            nonlocal reached
            self._effort = effort
            reached = recall(self.ask(queries), truth)
            return reached >= RECALLS[self._engine.name]

        effort = least(reaches, self._k, MOST_EFFORT)
        self._effort = effort or MOST_EFFORT
        return "" if effort else f"the most effort, {MOST_EFFORT} rows, reaches {reached:.3f}"


class Ranked(Likely):
    """The hits of the order among the candidates of an engine, as many as its effort."""

    def __init__(self, engine: Engine, points: Points, kind: Kind, k: int, threads: int) -> None:
        super().__init__(engine, k)
        self.name = f"{engine.name}, re-ranked"
        self.question = f"{ORDER}, recall {RECALLS[engine.name]:g}"
        self._points, self._workers = points, Workers(threads)
        general = kind == "image"
        self._orientation = Orientation.QUERY_GENERAL if general else Orientation.STORED_GENERAL

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        found = self._engine.search(queries, self._effort, self._effort)
        rows = Candidates.of([each[each >= 0] for each in found])
        best = TopK(len(queries), self._k)
        violations = score_rows(self._points, rows, queries, self._orientation, self._workers)
        best.add(rows.rows, rows.starts, violations)
        ids = np.full((len(queries), self._k), -1)
        for b, hits in enumerate(best.hits()):
            ids[b, : len(hits)] = hits.ids
        return ids


class Rivals(NamedTuple):
    """The engines that take part, and by name why others do not."""

    contenders: list[Contender]
    absent: dict[str, str]


def build(
    blocks: Iterable[tuple[int, Points]],
    shape: tuple[int, int],
    kind: Kind,
    k: int,
    beside: tuple[str, ...],
    queries: Points,
    truth: Ids,
    threads: int,
    clock: Clock,
    tell: Callable[[str], None],
) -> Rivals:
    """Build engines of (R, N) points that come in blocks, and set them for queries (B, N).

    `truth` (B, k) are the exact hits of the order.
    """
    rows, dimension = shape
    contenders: list[Contender] = []
    absent: dict[str, str] = {}
    flat = faiss.IndexFlatIP(dimension)
    linked = "hnsw" in beside and rows <= GRAPH_ROWS
    if "hnsw" in beside and not linked:
        absent[HNSW] = f"not built over more than {GRAPH_ROWS:,} rows"
    graph = faiss.IndexHNSW(flat, LINKS) if linked else flat
    spent = 0.0
    tell("FAISS HNSW: building" if linked else "faiss.IndexFlatIP: building")
    for _, block in blocks:
        began = clock()
        graph.add(block)
        spent += clock() - began
    points = faiss.rev_swig_ptr(flat.get_xb(), rows * dimension).reshape(rows, dimension)
    if "flat" in beside:
        contenders.append(Flat(flat, k, clock))
    if "panorama" in beside and hasattr(faiss, "IndexFlatL2Panorama"):
        tell(f"{Panorama.name}: building")
        contenders.append(Panorama(points, queries, k, clock))
    elif "panorama" in beside:
        absent[Panorama.name] = f"not in FAISS {faiss.__version__}"
    engines = [_graph(graph, spent)] if linked else []
    if "codes" in beside:
        tell(f"{CODES}: building")
        engines.append(_codes(flat, points, clock))
    nearest = flat.search(queries, k)[1] if engines else truth
    for engine in engines:
        for contender, wanted in (
            (Likely(engine, k), nearest),
            (Ranked(engine, points, kind, k, threads), truth),
        ):
            tell(f"{contender.name}: tuning")
            if reason := contender.tune(queries, wanted):
                absent[f"{contender.name} ({contender.question})"] = reason
            else:
                contenders.append(contender)
    return Rivals(contenders, absent)


def _graph(index: Any, build_seconds: float) -> Engine:
    def search(queries: Points, k: int, effort: int) -> Ids:
        ids: Ids = index.search(queries, k, params=faiss.SearchParametersHNSW(efSearch=effort))[1]
        return ids

    return Engine(HNSW, f"M {LINKS}", "efSearch", build_seconds, search)


def _codes(flat: Any, points: Points, clock: Clock) -> Engine:
    """Return half a byte for a few coordinates, scanned fast, whose best rows are ranked again."""
    began, dimension = clock(), points.shape[1]
    parts = max(1, dimension // _CODED_TOGETHER)
    codes = faiss.IndexPQFastScan(dimension, parts, 4, faiss.METRIC_INNER_PRODUCT)
    codes.train(points[:: max(1, len(points) // _TRIED_ROWS)])
    refined = faiss.IndexRefineFlat(codes)
    codes.add(points)
    # The points are those of the flat index, not a copy.
    refined.refine_index, refined.own_refine_index = flat, False
    refined.ntotal = codes.ntotal

    def search(queries: Points, k: int, effort: int) -> Ids:
        parameters = faiss.IndexRefineSearchParameters(k_factor=effort / k)
        index = refined if effort > k else codes
        ids: Ids = index.search(queries, k, **({"params": parameters} if effort > k else {}))[1]
        return ids

    return Engine(CODES, f"PQ{parts}x4fs", "rows", clock() - began, search)


def _least_seconds(work: Callable[[], object], clock: Clock) -> float:
    def once() -> float:
        began = clock()
        work()
        return clock() - began

    once()
    return min(once() for _ in range(_TRIED_CALLS))
