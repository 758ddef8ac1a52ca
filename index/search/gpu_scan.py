"""Scans on a GPU that holds the points; answers are bit for bit those of the CPU.

The device holds float16, which halves the bytes to read, and adds in another order. So its
violations differ from the CPU's. They only rule out rows that cannot be among the k best by more
than all rounding errors. The CPU scores the few other rows from the float32 points on disk.
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

if TYPE_CHECKING:  # importing a segment imports SQLAlchemy, which a scan does not need
    from hasse.index.segments.segment import Segment

_UPLOAD_ROWS = 16_384
MIN_BYTES = 8 << 20  # of a segment: the CPU scans a smaller one before a kernel starts
_LARGEST = 60_000.0  # absolute value of a coordinate; float16 ends at 65,504
_OUTWARD = 1 + 1e-3  # covers the rounding of the norms
_SHARE_OF_MEMORY = 0.8  # of the free memory; the rest is left to the encoders


def count_devices() -> int:
    """Return the number of CUDA devices that torch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """The points of one segment in a device's memory.

    Attributes:
        columns: coordinates, (N, R) rounded up; see `hasse.index.kernels.triton_scan`.
        rows: number of points.
        dimension: N.
        orientation: orientation of the segment.
        largest_norm: largest norm of a point on the device.
        error: largest distance between a point on the device and the same point on disk.
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
        """Return, for each query (B, N), rows that include its k best within the limit.

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
                self._near_best(rows[start:stop].ravel(), flat[start:stop].ravel(), k, limit, norm)
                for (start, stop), limit in pairs
            ]
        )

    def _near_best(
        self, rows: Ids, values: NDArray[np.float64], k: int, limit: float, norm: float
    ) -> Ids:
        """Return the rows that may be among the k best within the limit."""
        bound = limit
        if len(values) > k:
            bound = min(limit, float(self._near(np.partition(values, k - 1)[k - 1], norm)))
        near = (values <= self._near(np.float64(bound), norm)) & (values < np.inf)
        return np.asarray(rows[near])

    def _near(self, values: Any, norm: float) -> Any:
        """Return an upper bound on the device's violations for those of the CPU, or vice versa.

        If the distance of two points is e, the square roots of their order violations differ by at
        most e, and their inner products with a query by at most e times its norm. Adding N terms in
        any order rounds each term at most N times.
        """
        dimension = self.dimension
        rounding = 2 * (dimension + 2) * 2.0**-24 + relative_error(dimension)
        if self.orientation is Orientation.COSINE:
            return values + self.error * norm + rounding * (1 + self.largest_norm * norm)
        times, more = 1 + 2 * rounding, dimension * 2.0**-125
        return (np.sqrt(values * times + more) + self.error) ** 2 * times + more


class Accelerator:
    """Holds the points of segments on one torch device; thread-safe."""

    def __init__(self, device: str, memory: int | None = None, min_bytes: int = MIN_BYTES) -> None:
        """Use at most `memory` bytes of `device` ("cuda", "cuda:1", ...), for large segments."""
        self._device = torch.device(device)
        if memory is None:
            free, _ = torch.cuda.mem_get_info(self._device)
            memory = int(free * _SHARE_OF_MEMORY)
        self._memory, self._min_bytes = memory, min_bytes
        self._residents: dict[str, Resident] = {}
        self._lock = threading.Lock()

    def keep(self, segments: Sequence[Segment]) -> None:
        """Hold as many of the large segments as fit, and release all others."""
        with self._lock:
            names = {segment.record.name for segment in segments}
            residents = {name: held for name, held in self._residents.items() if name in names}
            room = self._memory - sum(held.columns.nbytes for held in residents.values())
            for segment in sorted(segments, key=lambda segment: -segment.rows):
                name, size = segment.record.name, 2 * math.prod(shape_of(*segment.points.shape))
                if name in residents or not self._min_bytes <= size <= room:
                    continue
                with segment.read_in_order():
                    if segment.points.min() >= -_LARGEST and segment.points.max() <= _LARGEST:
                        residents[name] = self._upload(segment)
                        room -= size
            self._residents = residents

    def resident(self, segment: Segment) -> Resident | None:
        """Return the points of a segment on the device, or None if it does not hold them."""
        return self._residents.get(segment.record.name)

    def _upload(self, segment: Segment) -> Resident:
        rows, dimension = segment.points.shape
        columns = columns_for(rows, dimension, self._device)
        error = norm = 0.0
        for at in range(0, rows, _UPLOAD_ROWS):
            block = torch.from_numpy(np.array(segment.points[at : at + _UPLOAD_ROWS]))
            block = block.to(self._device)
            half = block.half()
            columns[:dimension, at : at + len(block)] = half.T
            norm = max(norm, float(half.float().norm(dim=1).max()))
            error = max(error, float((block - half.float()).norm(dim=1).max()))
        return Resident(columns, rows, dimension, segment.orientation, norm, error * _OUTWARD)
