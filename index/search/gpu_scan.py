"""Scans on a GPU, which holds the points; answers have the bits that the CPU computes.

The device holds float16, half the bytes to read, and adds in an order of its own, so its
violations differ from the CPU's. They only serve to rule out rows that cannot be among the k best,
by more than all roundings. The CPU scores the few other rows from the float32 points on disk.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.triton_scan import (
    TILE,
    columns_for,
    shape_of,
    smallest_of_tiles,
    violations_of_tiles,
)
from hasse.index.kernels.violations import relative_error
from hasse.index.types import Ids, Orientation, Points

if TYPE_CHECKING:  # a segment brings FAISS and SQLAlchemy, and a scan needs neither
    from hasse.index.segments.segment import Segment

_UPLOAD_ROWS = 16_384
SMALLEST = 8 << 20  # bytes of a segment; a smaller one is scanned before the device has started
_LARGEST = 60_000.0  # coordinate, of either sign: beyond it float16 ends
_OUTWARD = 1 + 1e-3  # for the rounding of the norms themselves
_SHARE_OF_MEMORY = 0.8  # of what is free; the rest is left to the encoders


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """The points of one segment in a device's memory.

    Attributes:
        columns: their coordinates, (N, R) rounded up; see `hasse.index.kernels.triton_scan`.
        rows: how many they are.
        dimension: N.
        orientation: of the segment's kind and score.
        largest_norm: of a point here.
        error: the farthest that a point here is from the one on disk.
    """

    columns: Tensor
    rows: int
    dimension: int
    orientation: Orientation
    largest_norm: float
    error: float

    def shortlist(
        self,
        excluded: NDArray[np.bool_],
        queries: Points,
        k: int,
        limits: NDArray[np.float64],
    ) -> Candidates:
        """Return, for each query (B, N), rows among which its k best within the limit are.

        They are few more than k, unless there are many ties.
        """
        device = self.columns.device
        mask = torch.from_numpy(np.array(excluded)).to(device) if len(excluded) else None
        device_queries = torch.from_numpy(np.array(queries)).to(device)
        smallest = smallest_of_tiles(
            self.columns, device_queries, mask, self.rows, self.orientation
        )  # (B, tiles)
        norm = float(np.linalg.norm(queries, axis=1).max())
        bounds = np.full(len(queries), np.inf)
        if k <= smallest.shape[1]:
            bounds = smallest.kthvalue(k, dim=1).values.cpu().numpy().astype(np.float64)
        bounds = self._near(np.minimum(self._near(bounds, norm), limits), norm)
        within = smallest.double() <= torch.from_numpy(bounds).to(device)[:, None]
        owners, tiles = within.nonzero().T.contiguous()  # (P,), by query and then by tile
        values = violations_of_tiles(
            self.columns, device_queries, mask, self.rows, self.orientation, owners, tiles
        )
        rows = tiles.cpu().numpy()[:, None] * TILE + np.arange(TILE)  # (P, TILE)
        flat = values.cpu().numpy().astype(np.float64)
        edges = np.searchsorted(owners.cpu().numpy(), np.arange(len(queries) + 1))
        pairs = zip(pairwise(edges), limits.tolist(), strict=True)
        return Candidates.of(
            [
                self._chosen(rows[start:stop].ravel(), flat[start:stop].ravel(), k, limit, norm)
                for (start, stop), limit in pairs
            ]
        )

    def _chosen(
        self, rows: Ids, values: NDArray[np.float64], k: int, limit: float, norm: float
    ) -> Ids:
        bound = limit
        if len(values) > k:
            bound = min(limit, float(self._near(np.partition(values, k - 1)[k - 1], norm)))
        near = (values <= self._near(np.float64(bound), norm)) & (values < np.inf)
        return np.asarray(rows[near])

    def _near(self, values: Any, norm: float) -> Any:
        """Bound the violations of rows on the device from above, given those on disk; or back.

        Where two points are e apart, the square roots of their order violations differ by e at
        most, and their inner products with a query by e times its norm. Any order of adding N terms
        rounds each of them at most N times.
        """
        dimension = self.dimension
        rounding = 2 * (dimension + 2) * 2.0**-24 + relative_error(dimension)
        if self.orientation is Orientation.COSINE:
            return values + self.error * norm + rounding * (1 + self.largest_norm * norm)
        times, more = 1 + 2 * rounding, dimension * 2.0**-125
        return (np.sqrt(values * times + more) + self.error) ** 2 * times + more


class Accelerator:
    """The points of segments on one torch device. Threads may share it."""

    def __init__(self, device: str, memory: int | None = None, smallest: int = SMALLEST) -> None:
        """Use at most `memory` bytes of `device` ("cuda", "cuda:1", ...), for large segments."""
        self._device = torch.device(device)
        if memory is None:
            free, _ = torch.cuda.mem_get_info(self._device)
            memory = int(free * _SHARE_OF_MEMORY)
        self._memory, self._smallest = memory, smallest
        self._residents: dict[str, Resident] = {}
        self._lock = threading.Lock()

    def keep(self, segments: Sequence[Segment]) -> None:
        """Hold the large ones of these segments, as many as fit, and let go of all others."""
        with self._lock:
            names = {segment.record.name for segment in segments}
            residents = {name: one for name, one in self._residents.items() if name in names}
            room = self._memory - sum(one.columns.nbytes for one in residents.values())
            for segment in sorted(segments, key=lambda segment: -segment.rows):
                name, size = segment.record.name, 2 * math.prod(shape_of(*segment.points.shape))
                if name in residents or not self._smallest <= size <= room:
                    continue
                with segment.read_in_order():
                    if segment.points.min() >= -_LARGEST and segment.points.max() <= _LARGEST:
                        residents[name] = self._uploaded(segment)
                        room -= size
            self._residents = residents

    def resident(self, segment: Segment) -> Resident | None:
        """Return a segment's points on the device, if they are there."""
        return self._residents.get(segment.record.name)

    def _uploaded(self, segment: Segment) -> Resident:
        rows, dimension = segment.points.shape
        columns = columns_for(rows, dimension, self._device)
        error = norm = 0.0
        for at in range(0, rows, _UPLOAD_ROWS):
            block = torch.from_numpy(np.array(segment.points[at : at + _UPLOAD_ROWS]))
            block = block.to(self._device)
            low = block.half()
            columns[:dimension, at : at + len(block)] = low.T
            norm = max(norm, float(low.float().norm(dim=1).max()))
            error = max(error, float((block - low.float()).norm(dim=1).max()))
        return Resident(columns, rows, dimension, segment.orientation, norm, error * _OUTWARD)
