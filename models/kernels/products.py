"""Products of a few rows with a constant matrix, on the calling thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Multiplications of the largest product that OpenBLAS runs on one thread. Its threads wait for each
# other actively: on a busy machine that takes ten times the processor time.
_ONE_THREAD = 65_536 * 4


class Product:
    """A matrix (K, N) for products with rows, in blocks of columns that need one thread.

    A row's result has the same bits in all products of the same number of rows.
    """

    def __init__(self, matrix: Floats, rows: int) -> None:
        """Prepare a matrix for products of usually `rows` rows."""
        width = max(1, _ONE_THREAD // (rows * len(matrix)))
        starts = range(0, matrix.shape[1], width)
        self._blocks = [np.ascontiguousarray(matrix[:, at : at + width]) for at in starts]

    def of(self, rows: Floats) -> Floats:
        """Return rows times the matrix: (R, K) -> (R, N)."""
        return np.concatenate([rows @ block for block in self._blocks], 1)
