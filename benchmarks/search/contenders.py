"""Who is measured: the modes of this project, and what else one could search with."""

from __future__ import annotations

from typing import Any, Protocol

import faiss as _faiss
import numpy as np
import torch

from index.search.query import Query
from index.store import Index
from index.types import Ids, Kind, Mode, Points
from models.order import pairwise_violation

faiss: Any = _faiss

_TORCH_ROWS = 8192  # differences of so many rows exist at a time


class Contender(Protocol):
    """Anything that returns the ids (B, k) of what it takes for the best rows."""

    name: str
    setting: str
    build_seconds: float

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        ...

    def bytes_per_query(self, queries: Points) -> float:
        """Return how much memory a query reads on average; NaN where it cannot be told."""
        ...


class Hasse:
    """One mode of the index."""

    build_seconds = 0.0

    def __init__(self, index: Index, kind: Kind, k: int, mode: Mode) -> None:
        self.name = f"hasse {mode}"
        self.setting = ""
        self.mode: Mode = mode
        self._index, self._kind, self._k = index, kind, k

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return np.stack([answer.ids for answer in answers])

    def bytes_per_query(self, queries: Points) -> float:
        """Return what the answers say was read of points and codes."""
        answers = self._index.search_batch(Query(self._kind, self._k, self.mode), queries)
        return float(np.mean([answer.work.bytes for answer in answers]))


class Flat:
    """`faiss.IndexFlatIP`: every row, by inner product, which is another question."""

    name = "faiss.IndexFlatIP"
    setting = ""
    build_seconds = 0.0

    def __init__(self, index: Any, k: int) -> None:
        self._index, self._k = index, k

    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        found: Ids = self._index.search(queries, self._k)[1]
        return found

    def bytes_per_query(self, _queries: Points) -> float:
        """Return the size of all points."""
        return float(4 * self._index.ntotal * self._index.d)


class PlainTorch:
    """The definition written in torch, block by block."""

    name = "torch"
    setting = "plain"
    build_seconds = 0.0

    def __init__(self, points: Points, kind: Kind, k: int) -> None:
        self._points, self._kind, self._k = torch.from_numpy(points), kind, k

    @torch.inference_mode()
    def ask(self, queries: Points) -> Ids:
        """Answer queries (B, N)."""
        asked = torch.from_numpy(queries)
        parts = [self._violations(part, asked) for part in torch.split(self._points, _TORCH_ROWS)]
        found = torch.cat(parts, 1).topk(self._k, largest=False).indices
        return np.asarray(found.numpy(), np.int64)

    def bytes_per_query(self, _queries: Points) -> float:
        """Return the size of all points; what torch writes in between is more."""
        return float(4 * self._points.numel())

    def _violations(self, part: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        if len(asked) > 1:
            if self._kind == "image":
                return pairwise_violation(part, asked).T
            return pairwise_violation(asked, part)
        gap = asked - part if self._kind == "image" else part - asked
        return gap.clamp(min=0).square().sum(-1)[None]
