"""Products of a few rows with a matrix that stays, on the thread that asks for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# OpenBLAS shares a product of more multiplications among threads, which wait for each other at
# work: on a busy machine that takes ten times the processor time.
_ALONE = 65_536 * 4


class Product:
    """A matrix (K, N) that rows are multiplied by, as many columns at a time as one thread does.

    Rows have the same bits in any product of as many rows.
    """

    def __init__(self, matrix: Floats, rows: int) -> None:
        """Take the matrix, and how many rows it is mostly multiplied by."""
        width = max(1, _ALONE // (rows * len(matrix)))
        starts = range(0, matrix.shape[1], width)
        self._blocks = [np.ascontiguousarray(matrix[:, at : at + width]) for at in starts]

    def of(self, rows: Floats) -> Floats:
        """Return rows times the matrix: (R, K) -> (R, N)."""
        return np.concatenate([rows @ block for block in self._blocks], 1)
