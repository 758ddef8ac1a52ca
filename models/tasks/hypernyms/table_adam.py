"""Adam on the rows of a table that a step touches (Kingma and Ba, 2015)."""

from __future__ import annotations

import torch
from torch import Tensor


class TableAdam:
    """Adam for a lookup table, at the cost of the rows looked up and not of all rows.

    The moments of a row decay only when it is touched; the correction of their bias counts all
    steps.
    """

    def __init__(self, table: Tensor, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        self._table = table
        self._decay = decay
        self._first = torch.zeros_like(table)
        self._second = torch.zeros_like(table)
        self._steps = 0

    def step(self, rows: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move distinct rows (R,) against their gradient (R, N)."""
        self._steps += 1
        slow, slower = self._decay
        first = self._first.index_select(0, rows).lerp_(gradient, 1 - slow)
        second = self._second.index_select(0, rows).lerp_(gradient.square(), 1 - slower)
        self._first.index_copy_(0, rows, first)
        self._second.index_copy_(0, rows, second)
        size = learning_rate * (1 - slower**self._steps) ** 0.5 / (1 - slow**self._steps)
        moved = first.div_(second.sqrt_().add_(1e-8)).mul_(-size)
        self._table.index_add_(0, rows, moved)
