"""The benchmark's own loops: violations of rows, as anyone would re-rank them, and reading."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba as _numba
import numpy as np
from numpy.typing import NDArray

from index.types import Ids, Kind, Points

numba: Any = _numba
# A division of the array among four places keeps more of the memory's lines on their way.
STREAMS = 4

_compiled = numba.njit(fastmath=True, nogil=True, cache=True)


def _every_violation(
    points: Points, rows: Ids, query: Points, query_above: bool, violations: Points
) -> None:
    for at in range(rows.shape[0]):
        row = points[rows[at]]
        total = np.float32(0)
        if query_above:
            for j in range(query.shape[0]):
                gap = max(query[j] - row[j], np.float32(0))
                total += gap * gap
        else:
            for j in range(query.shape[0]):
                gap = max(row[j] - query[j], np.float32(0))
                total += gap * gap
        violations[at] = total


_violations = _compiled(_every_violation)


def violations(points: Points, rows: Ids, query: Points, kind: Kind) -> Points:
    """Return E of chosen rows (n,) of points (R, N) with one query (N,).

    A caption that searches images is above them; an image that searches captions is below.
    """
    result = np.empty(len(rows), np.float32)
    _violations(points, rows, query, kind == "image", result)
    return result


def _sum(streams: NDArray[np.float32]) -> float:
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for at in range(streams.shape[1]):
        a += streams[0, at]
        b += streams[1, at]
        c += streams[2, at]
        d += streams[3, at]
    return float(a + b + c + d)


_total = _compiled(_sum)


class Reader:
    """Reads memory as fast as it comes, with as many threads as the contenders have."""

    name = "read memory"

    def __init__(self, size: int, threads: int) -> None:
        """Set aside `size` bytes, more than the caches hold."""
        count = size // (4 * STREAMS * threads)
        self._parts = [np.ones((STREAMS, count), np.float32) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads)
        self.bytes = sum(part.nbytes for part in self._parts)

    def read(self) -> float:
        """Add up everything."""
        if len(self._parts) == 1:
            return float(_total(self._parts[0]))
        return float(sum(self._pool.map(_total, self._parts)))

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown()
