"""Candidates from FAISS: rows that are likely to be hits. Nothing is proved here.

An inverted file over spherical clusters with product-quantised points, searched by inner product:
a hundred and twenty-eight bytes for a point of 1,024 coordinates, of which a few per cent are
read. Its search parameters travel with each call and are set on nothing shared.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import IO, Any

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from index import durable
from index.terms import Points

faiss: Any = _faiss

PREFILTER = "prefilter.faiss"

# Of the clusters: with so many, more than 0.99 of the exact top 10 are among 1,600 candidates.
_SHARE = 0.16
_TRAINING_ROWS_PER_LIST = 40  # FAISS's own advice: 39 to 256
_ROUNDS = 8  # of k-means: more of them did not raise the recall
_BLOCK = 16_384  # rows at a time, for bounded memory


class Prefilter:
    """The FAISS index of one segment. Searching it changes nothing, so threads may share it."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def open(cls, path: Path) -> Prefilter:
        """Read the file, whose checksum must have been compared already."""
        return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY))

    @property
    def name(self) -> str:
        """What kind of FAISS index it is, for people."""
        return f"IVF{self._index.nlist},PQ{self._index.pq.M}x4fs"

    @property
    def bytes_per_query(self) -> int:
        """What a search reads: every cluster's centre, and of some the codes, on average."""
        index = self._index
        codes = index.ntotal * self._probed // index.nlist * (index.pq.M // 2)
        return int(4 * index.nlist * index.d + codes)

    @property
    def _probed(self) -> int:
        return int(min(self._index.nlist, max(8, round(self._index.nlist * _SHARE))))

    def candidates(
        self, queries: Points, count: int, dead: NDArray[np.bool_]
    ) -> list[NDArray[np.int64]]:
        """Return up to `count` live rows for each query (B, N), in ascending order."""
        parameters = faiss.SearchParametersIVF(nprobe=self._probed)
        if len(dead):
            alive = np.packbits(~dead, bitorder="little")
            parameters.sel = faiss.IDSelectorBitmap(alive)
        _, rows = self._index.search(queries, min(count, self._index.ntotal), params=parameters)
        return [np.sort(found[found >= 0]) for found in rows]


def write_prefilter(path: Path, points: Points, seed: int = 0) -> None:
    """Cluster and compress points (R, N) into a FAISS index at `path`, in bounded memory."""
    rows, dimension = points.shape
    lists = max(16, round(2 * rows**0.5))
    together = next(size for size in (4, 2, 3, 5, 1) if dimension % size == 0)
    index = faiss.index_factory(
        dimension, f"IVF{lists},PQ{dimension // together}x4fs", faiss.METRIC_INNER_PRODUCT
    )
    index.cp.spherical = True
    index.cp.seed = index.pq.cp.seed = seed
    index.cp.niter = index.pq.cp.niter = _ROUNDS
    index.cp.min_points_per_centroid = 1
    sample = min(rows, lists * _TRAINING_ROWS_PER_LIST)
    chosen = np.sort(np.random.default_rng(seed).choice(rows, sample, replace=False))
    index.train(np.ascontiguousarray(points[chosen]))
    for at in range(0, rows, _BLOCK):
        index.add(np.ascontiguousarray(points[at : at + _BLOCK]))
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(partial(_write, file)))
        durable.sync(file)


def _write(file: IO[bytes], data: bytes) -> int:
    durable.write(file, data)
    return len(data)
