"""Candidates from FAISS: rows that are likely to be hits. Nothing is proved here.

An inverted file over clusters with product-quantised points: a quarter of a byte for each
coordinate, and a quarter of the clusters is read. Its search parameters travel with each call and
are set on nothing shared.

FAISS knows distances without a direction. Rows y that are more general than a query x, captions of
an image, may be short: a coordinate that they leave out is no violation. In

    || y - g x ||^2  =  ||y||^2 - 2 g <x, y> + a constant for every row

the first term is what a caption claims, the second how much of it the image grants; g weighs them
as violations do (`_reach`). Rows are stored divided by g, which keeps the order. The distance also
counts what the query has and the row leaves out. Rows near the average leave out least and would be
proposed too soon. So each coordinate of the query is raised to the power 3/2, at the same length:
what few rows have weighs more.
For rows that are more specific than the query, their heaviest coordinates propose better
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

# Share of the clusters that are read: more than 0.99 of the exact top 10 are then among 600
# candidates.
_SHARE = 0.24
_TRAINING_ROWS_PER_LIST = 40  # FAISS's own advice: 39 to 256
_SEED = 0  # the same rows always make the same file
_ROUNDS = 8  # of k-means: more of them did not raise the recall
_BLOCK = 16_384  # rows at a time, for bounded memory
_QUERIES, _ROWS = 32, 4096  # rows that stand for queries and for all rows, to choose g by
_REACHES = (0.25, 2.0)
_NEAR = 0.1  # of the rows: those with the smallest violations are to be ranked well
_TINY = np.float32(1e-30)  # no length is divided by less
_ALIKE = 0.1  # squared lengths that deviate by so small a share of their mean say nothing of g


@cache
def _library() -> Any:
    """Return FAISS, which few segments need: its import takes longer than most searches."""
    import faiss

    return faiss


class Prefilter:
    """The FAISS index of one segment. Searching it changes nothing, so threads may share it."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lists = _lists(index)

    @classmethod
    def open(cls, path: Path) -> Prefilter:
        """Read the file, whose checksum must have been compared already."""
        faiss = _library()
        return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY))

    @property
    def name(self) -> str:
        """What kind of FAISS index it is, for people."""
        return f"RR,IVF{self._lists.nlist},PQ{self._lists.pq.M}x4fs"

    @property
    def bytes_per_query(self) -> int:
        """What a search reads: a rotation, every cluster's centre, some codes on average."""
        lists = self._lists
        codes = lists.ntotal * self._probed // lists.nlist * (lists.pq.M // 2)
        return int(4 * (lists.nlist + lists.d) * lists.d + codes)

    @property
    def _probed(self) -> int:
        return int(min(self._lists.nlist, max(8, round(self._lists.nlist * _SHARE))))

    def candidates(self, queries: Points, count: int, excluded: NDArray[np.bool_]) -> Candidates:
        """Return up to `count` live rows for each query (B, N)."""
        faiss = _library()
        if self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            queries = _raised(queries)
        some = faiss.SearchParametersIVF(nprobe=self._probed)
        if len(excluded):
            some.sel = faiss.IDSelectorBitmap(np.packbits(~excluded, bitorder="little"))
        parameters = faiss.SearchParametersPreTransform(index_params=some)
        _, rows = self._index.search(queries, min(count, self._index.ntotal), params=parameters)
        return Candidates.of([np.sort(found[found >= 0]) for found in rows])


def write_prefilter(path: Path, points: Points, orientation: Orientation) -> None:
    """Cluster and compress points (R, N) into a FAISS index at `path`, in bounded memory."""
    rows, dimension = points.shape
    lists = max(16, round(2 * rows**0.5))
    # A search adds up tables that share one scale of eight bits: a rotation makes them alike.
    together = next(size for size in (2, 3, 5, 1) if dimension % size == 0)
    cosine = orientation is Orientation.COSINE
    faiss = _library()
    index = faiss.index_factory(
        dimension,
        f"RR{dimension},IVF{lists},PQ{dimension // together}x4fs",
        faiss.METRIC_INNER_PRODUCT if cosine else faiss.METRIC_L2,
    )
    ivf = _lists(index)
    ivf.cp.spherical = cosine
    ivf.cp.seed = ivf.pq.cp.seed = _SEED
    ivf.cp.niter = ivf.pq.cp.niter = _ROUNDS
    ivf.cp.min_points_per_centroid = 1
    draw = np.random.default_rng(_SEED)
    chosen = np.sort(draw.choice(rows, min(rows, lists * _TRAINING_ROWS_PER_LIST), replace=False))
    sample = np.ascontiguousarray(points[chosen])
    scale = np.float32(1 if cosine else 1 / _reach(sample))
    sample *= scale
    index.train(sample)
    for at in range(0, rows, _BLOCK):
        index.add(points[at : at + _BLOCK] * scale)
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(partial(_write, file)))
        durable.sync(file)


def _raised(queries: Points) -> Points:
    """Return points (B, N) of the same lengths, whose coordinates go as the power 3/2 of theirs."""
    raised = queries * np.sqrt(queries)
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    raised *= lengths / np.maximum(np.linalg.norm(raised, axis=1, keepdims=True), _TINY)
    return raised


def _lists(index: Any) -> Any:
    """Return the inverted file behind the rotation."""
    faiss = _library()
    return faiss.downcast_index(faiss.extract_index_ivf(index))


def _reach(points: Points) -> float:
    """Return the g with which || y - g x ||^2 ranks rows y of `points` most as violations do.

    The longest rows stand for the queries, which are more specific than the stored rows. Least
    squares over the rows with small violations finds each one's a and b of

        || max(0, y - x) ||^2  =  a ||y||^2 - 2 b <x, y> + constant

    and g = b / a. Where rows are nearly of one length the longest are not the most specific (a
    model may have made longer what is near to all), and g, which then matters little, is 1.
    """
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    if squares.std() <= _ALIKE * squares.mean():
        return 1.0
    queries = points[np.argsort(-squares, kind="stable")[:_QUERIES]].astype(np.float64)
    every = max(1, len(points) // _ROWS)
    rows, squares = points[::every].astype(np.float64), squares[::every]
    fits = []
    for x in queries:
        violations = np.square(np.maximum(rows - x, 0)).sum(1)
        near = violations <= np.quantile(violations, _NEAR)
        terms = np.stack([squares[near], -2 * rows[near] @ x, np.ones(near.sum())], 1)
        fits.append(np.linalg.lstsq(terms, violations[near], rcond=1e-4)[0])
    a, b, _ = np.median(fits, axis=0)
    return float(np.clip(b / a, *_REACHES)) if a > 0 else 1.0


def _write(file: IO[bytes], data: bytes) -> int:
    durable.write(file, data)
    return len(data)
