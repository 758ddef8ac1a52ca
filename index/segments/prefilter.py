"""Candidates from FAISS: rows that are likely to be hits, without a proof.

An inverted file over clusters with product-quantised points: a quarter of a byte for each
coordinate, and a quarter of the clusters is read. Search parameters are passed with each call, so
that threads can share the index.

FAISS computes symmetric distances. Rows y that are more general than a query x, such as captions of
an image, may be short: a coordinate that they lack is no violation. In

    || y - g x ||^2  =  ||y||^2 - 2 g <x, y> + a constant for every row

the first term is what a caption claims, and the second is how much of it the image grants; g
weighs them as violations do (`_query_weight`). Rows are stored divided by g, which keeps the order.
The distance also counts coordinates that the query has and the row lacks. Rows near the average
lack the fewest and would rank too high. So each coordinate of the query is raised to the power 3/2,
at the same length: coordinates that few rows have weigh more.
For rows that are more specific than the query, their heaviest coordinates propose better candidates
(`hasse.index.bounds.lower_bounds`), and no FAISS index is made.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hasse.index import durable
from hasse.index.kernels.candidates import Candidates
from hasse.index.types import Orientation, Points

# Share of the clusters that is read. More than 0.99 of the exact top 10 are then among 600
# candidates.
_SHARE = 0.24
_TRAINING_ROWS_PER_LIST = 40  # FAISS's own advice: 39 to 256
_SEED = 0  # the same rows always make the same file
_ITERATIONS = 8  # of k-means: more did not raise the recall
_BLOCK = 16_384  # rows at a time, for bounded memory
_QUERIES, _ROWS = 32, 4096  # sampled rows that stand for queries and for all rows, to choose g
_WEIGHTS = (0.25, 2.0)  # range of g
_NEAR = 0.1  # share of rows with the smallest violations, which must be ranked well
_TINY = np.float32(1e-30)  # lower bound of a divisor
_ALIKE = 0.1  # with a smaller relative deviation, squared lengths do not determine g


@cache
def _faiss() -> Any:
    """Return FAISS. It is imported on demand: the import takes longer than most searches."""
    import faiss

    return faiss


class Prefilter:
    """The FAISS index of one segment. Searching it changes nothing, so threads may share it."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lists = _lists(index)

    @classmethod
    def open(cls, path: Path) -> Prefilter:
        """Map the file; compare its checksum before."""
        faiss = _faiss()
        return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY))

    @property
    def name(self) -> str:
        """The kind of FAISS index, as a factory string without its dimension."""
        return f"RR,IVF{self._lists.nlist},PQ{self._lists.pq.M}x4fs"

    @property
    def bytes_per_query(self) -> int:
        """Average bytes that a search reads: the rotation, all centres, and some of the codes."""
        lists = self._lists
        codes = lists.ntotal * self._probes // lists.nlist * (lists.pq.M // 2)
        return int(4 * (lists.nlist + lists.d) * lists.d + codes)

    @property
    def _probes(self) -> int:
        return int(min(self._lists.nlist, max(8, round(self._lists.nlist * _SHARE))))

    def candidates(self, queries: Points, count: int, excluded: NDArray[np.bool_]) -> Candidates:
        """Return up to `count` live rows for each query (B, N)."""
        faiss = _faiss()
        if self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            queries = _sharpen(queries)
        ivf = faiss.SearchParametersIVF(nprobe=self._probes)
        if len(excluded):
            ivf.sel = faiss.IDSelectorBitmap(np.packbits(~excluded, bitorder="little"))
        parameters = faiss.SearchParametersPreTransform(index_params=ivf)
        _, labels = self._index.search(queries, min(count, self._index.ntotal), params=parameters)
        return Candidates.of([np.sort(rows[rows >= 0]) for rows in labels])


def write_prefilter(path: Path, points: Points, orientation: Orientation) -> None:
    """Cluster and compress points (R, N) into a FAISS index at `path`, in bounded memory."""
    rows, dimension = points.shape
    lists = max(16, round(2 * rows**0.5))
    # The tables of a search share one scale of eight bits, so a rotation evens out their ranges.
    block = next(size for size in (2, 3, 5, 1) if dimension % size == 0)
    cosine = orientation is Orientation.COSINE
    faiss = _faiss()
    index = faiss.index_factory(
        dimension,
        f"RR{dimension},IVF{lists},PQ{dimension // block}x4fs",
        faiss.METRIC_INNER_PRODUCT if cosine else faiss.METRIC_L2,
    )
    ivf = _lists(index)
    ivf.cp.spherical = cosine
    ivf.cp.seed = ivf.pq.cp.seed = _SEED
    ivf.cp.niter = ivf.pq.cp.niter = _ITERATIONS
    ivf.cp.min_points_per_centroid = 1
    random = np.random.default_rng(_SEED)
    count = min(rows, lists * _TRAINING_ROWS_PER_LIST)
    sample = np.ascontiguousarray(points[np.sort(random.choice(rows, count, replace=False))])
    scale = np.float32(1 if cosine else 1 / _query_weight(sample))
    sample *= scale
    index.train(sample)
    for at in range(0, rows, _BLOCK):
        index.add(points[at : at + _BLOCK] * scale)
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(partial(_write, file)))
        durable.sync(file)


def _sharpen(queries: Points) -> Points:
    """Raise the coordinates of points (B, N) to the power 3/2, and keep their lengths."""
    sharp = queries * np.sqrt(queries)
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    sharp *= lengths / np.maximum(np.linalg.norm(sharp, axis=1, keepdims=True), _TINY)
    return sharp


def _lists(index: Any) -> Any:
    """Return the inverted file behind the rotation."""
    faiss = _faiss()
    return faiss.downcast_index(faiss.extract_index_ivf(index))


def _query_weight(points: Points) -> float:
    """Return the g for which || y - g x ||^2 ranks rows y most as violations do.

    The longest rows of `points` stand for the queries, which are more specific than stored rows.
    For each, least squares over the rows with small violations gives a and b of

        || max(0, y - x) ||^2  =  a ||y||^2 - 2 b <x, y> + constant

    and g = b / a. If all rows have nearly the same length, the longest are not the most specific
    (a hubness correction changes lengths), and g, which then matters little, is 1.
    """
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    if squares.std() <= _ALIKE * squares.mean():
        return 1.0
    queries = points[np.argsort(-squares, kind="stable")[:_QUERIES]].astype(np.float64)
    stride = max(1, len(points) // _ROWS)
    rows, squares = points[::stride].astype(np.float64), squares[::stride]
    fits = []
    for x in queries:
        violations = np.square(np.maximum(rows - x, 0)).sum(1)
        near = violations <= np.quantile(violations, _NEAR)
        terms = np.stack([squares[near], -2 * rows[near] @ x, np.ones(near.sum())], 1)
        fits.append(np.linalg.lstsq(terms, violations[near], rcond=1e-4)[0])
    a, b, _ = np.median(fits, axis=0)
    return float(np.clip(b / a, *_WEIGHTS)) if a > 0 else 1.0


def _write(file: IO[bytes], data: bytes) -> int:
    durable.write(file, data)
    return len(data)
