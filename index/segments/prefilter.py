"""Candidates from FAISS: rows that are likely to be hits, without a proof.

An inverted file over clusters with product-quantised points: a quarter of a byte for each
coordinate, and six tenths of the clusters are read. Search parameters are passed with each call,
so that threads can share the index.

FAISS ranks by inner products, and max(0, y - x)^2 is none. But a coordinate y of a caption costs
y^2 where the image x has nothing, and little where x exceeds most of what captions have there. So
|| max(0, y - x) ||^2 ranks rows nearly as

    sum over all coordinates of  y^2 max(0, 1 - x / c)^2

with c the root of sum y^4 / sum y^2, the size of the coordinates that matter. Rows are stored as
their squares, and the other factor is the query.
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

# Share of the clusters that is read. More than 0.98 of the exact top 10 are then among 600
# candidates.
_SHARE = 0.6
_TRAINING_ROWS_PER_LIST = 40  # FAISS's own advice: 39 to 256
_SEED = 0  # the same rows always make the same file
_ITERATIONS = 8  # of k-means: more did not raise the recall
_BLOCK = 16_384  # rows at a time, for bounded memory
_SAMPLE = 64  # rows from which c is estimated
_TINY = np.float32(1e-30)  # lower bound of a divisor


@cache
def _faiss() -> Any:
    """Return FAISS. It is imported on demand: the import takes longer than most searches."""
    import faiss

    return faiss


class Prefilter:
    """The FAISS index of one segment. Searching it changes nothing, so threads may share it."""

    def __init__(self, index: Any, points: Points, orientation: Orientation) -> None:
        """Use a FAISS index of a segment's points (R, N)."""
        self._index = index
        self._orientation = orientation
        squares = np.square(points[:: -(-len(points) // _SAMPLE)])
        self._enough = np.sqrt(np.square(squares).sum() / (squares.sum() + _TINY)) + _TINY

    @classmethod
    def open(cls, path: Path, points: Points, orientation: Orientation) -> Prefilter:
        """Map the file; compare its checksum before."""
        faiss = _faiss()
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        return cls(index, points, orientation)

    @property
    def name(self) -> str:
        """The kind of FAISS index, as a factory string without its dimension."""
        return f"IVF{self._index.nlist},PQ{self._index.pq.M}x4fs"

    @property
    def bytes_per_query(self) -> int:
        """Average bytes that a search reads: all centres, and some of the codes."""
        index = self._index
        codes = index.ntotal * self._probes // index.nlist * (index.pq.M // 2)
        return int(4 * index.nlist * index.d + codes)

    @property
    def _probes(self) -> int:
        return int(min(self._index.nlist, max(8, round(self._index.nlist * _SHARE))))

    def candidates(self, queries: Points, count: int, excluded: NDArray[np.bool_]) -> Candidates:
        """Return up to `count` live rows for each query (B, N)."""
        faiss = _faiss()
        if self._orientation is not Orientation.COSINE:
            queries = -np.square(np.maximum(1 - queries / self._enough, 0))
        parameters = faiss.SearchParametersIVF(nprobe=self._probes)
        if len(excluded):
            parameters.sel = faiss.IDSelectorBitmap(np.packbits(~excluded, bitorder="little"))
        _, labels = self._index.search(queries, min(count, self._index.ntotal), params=parameters)
        return Candidates.of([np.sort(rows[rows >= 0]) for rows in labels])


def write_prefilter(path: Path, points: Points, orientation: Orientation) -> None:
    """Cluster and compress points (R, N) into a FAISS index at `path`, in bounded memory."""
    rows, dimension = points.shape
    lists = max(16, round(2 * rows**0.5))
    block = next(size for size in (2, 3, 5, 1) if dimension % size == 0)
    cosine = orientation is Orientation.COSINE
    faiss = _faiss()
    factory = f"IVF{lists},PQ{dimension // block}x4fs"
    index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = cosine
    index.cp.seed = index.pq.cp.seed = _SEED
    index.cp.niter = index.pq.cp.niter = _ITERATIONS
    index.cp.min_points_per_centroid = 1
    random = np.random.default_rng(_SEED)
    count = min(rows, lists * _TRAINING_ROWS_PER_LIST)
    stored = np.array if cosine else np.square
    index.train(stored(points[np.sort(random.choice(rows, count, replace=False))]))
    for at in range(0, rows, _BLOCK):
        index.add(stored(points[at : at + _BLOCK]))
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(partial(_write, file)))
        durable.sync(file)


def _write(file: IO[bytes], data: bytes) -> int:
    durable.write(file, data)
    return len(data)
