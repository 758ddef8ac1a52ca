"""What contenders are measured by: a clock, and reading memory as fast as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numba as _numba
import numpy as np
from numpy.typing import NDArray

numba: Any = _numba
Clock = Callable[[], float]
ClockName = Literal["wall", "processor"]
CLOCKS: Mapping[ClockName, Clock] = {"wall": time.perf_counter, "processor": time.process_time}
# A division of the array among four places keeps more of the memory's lines on their way.
STREAMS = 4


@numba.njit(fastmath=True, nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _total(streams: NDArray[np.float32]) -> float:
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for at in range(streams.shape[1]):
        a += streams[0, at]
        b += streams[1, at]
        c += streams[2, at]
        d += streams[3, at]
    return float(a + b + c + d)


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


def wait(device: str) -> None:
    """Return when a GPU has done all it was asked for; a CPU has."""
    import torch  # here, because processes that serve must not import it

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
