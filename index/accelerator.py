"""Scans on a GPU: points stay in its memory, and answers keep the bits that the CPU gives.

The device adds in an order of its own, so its violations differ from the kernels' in the last
bits. They are therefore only used to leave out rows that cannot be among the k best, by more than
both roundings; the few that remain are scored by the kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from index.kernels import relative_error
from index.segment import Segment
from index.terms import Form, Ids, Points

# Elements of the cube of queries by rows by coordinates that exist at one time: 256 MB.
_CUBE = 1 << 26
_QUERIES = 16  # that share one pass over the rows
_UPLOAD_ROWS = 16_384
_WORTH_BYTES = 16 << 20  # a smaller segment is scanned while the device is still being asked
_SHARE_OF_MEMORY = 0.8  # of what is free; the rest is left to the encoders


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """The points (R, N) of one segment in a device's memory."""

    points: Tensor
    form: Form
    largest_norm: float

    def shortlist(
        self,
        dead: NDArray[np.bool_],
        queries: Points,
        k: int,
        limits: NDArray[np.float64],
    ) -> list[Ids]:
        """Return, for each query (B, N), rows among which its k best within the limit are.

        Rows are in ascending order; few more than k, unless there are many ties.
        """
        device = self.points.device
        gone = torch.from_numpy(np.array(dead)).to(device) if len(dead) else None
        found: list[Ids] = []
        for at in range(0, len(queries), _QUERIES):
            asked = torch.from_numpy(np.array(queries[at : at + _QUERIES])).to(device)
            limit = torch.from_numpy(limits[at : at + _QUERIES]).to(device)
            values = self._violations(asked)  # (b, R)
            if gone is not None:
                values[:, gone] = torch.inf
            more, times = self._slack(asked)
            kth = values.kthvalue(min(k, values.shape[1]), dim=1).values.double()
            bound = torch.minimum(kth * times + more, limit)
            kept = values.double() <= (bound * times + more)[:, None]
            if gone is not None:
                kept[:, gone] = False
            found += [row.nonzero()[:, 0].cpu().numpy() for row in kept]
        return found

    def _violations(self, queries: Tensor) -> Tensor:
        rows, dimension = self.points.shape
        values = self.points.new_empty(len(queries), rows)
        step = max(1, _CUBE // (len(queries) * dimension))
        for at in range(0, rows, step):
            part = self.points[None, at : at + step]  # (1, r, N)
            if self.form is Form.COSINE:
                terms = part * queries[:, None]
            else:
                above = self.form is Form.QUERY_ABOVE
                gap = queries[:, None] - part if above else part - queries[:, None]
                terms = gap.clamp_(min=0).square_()
            values[:, at : at + step] = terms.sum(dim=2)
        return values.neg_().add_(1) if self.form is Form.COSINE else values

    def _slack(self, queries: Tensor) -> tuple[float, float]:
        """Return how much to add to a violation, and with what to multiply it.

        Any order of adding N terms rounds each of them at most N times.
        """
        dimension = self.points.shape[1]
        rounding = 2 * (dimension + 2) * 2.0**-24 + relative_error(dimension)
        if self.form is Form.COSINE:
            return rounding * (1 + self.largest_norm * float(queries.norm(dim=1).max())), 1.0
        return dimension * 2.0**-125, 1 + 2 * rounding


class Accelerator:
    """The points of segments on one torch device. Threads may share it."""

    def __init__(self, device: str, memory: int | None = None) -> None:
        """Use `device` ("cuda", "cuda:1", ...) and at most `memory` bytes of it."""
        self._device = torch.device(device)
        if memory is None:
            free, _ = torch.cuda.mem_get_info(self._device)
            memory = int(free * _SHARE_OF_MEMORY)
        self._memory = memory
        self._residents: dict[str, Resident] = {}
        self._lock = threading.Lock()

    def keep(self, segments: Sequence[Segment]) -> None:
        """Hold the large ones of these segments, as many as fit, and let go of all others."""
        with self._lock:
            names = {segment.record.name for segment in segments}
            kept = {name: one for name, one in self._residents.items() if name in names}
            room = self._memory - sum(4 * one.points.numel() for one in kept.values())
            for segment in sorted(segments, key=lambda segment: -segment.rows):
                name, size = segment.record.name, segment.points.nbytes
                if name not in kept and _WORTH_BYTES <= size <= room:
                    kept[name] = self._uploaded(segment)
                    room -= size
            self._residents = kept

    def resident(self, segment: Segment) -> Resident | None:
        """Return a segment's points on the device, if they are there."""
        return self._residents.get(segment.record.name)

    def _uploaded(self, segment: Segment) -> Resident:
        points = torch.empty(segment.points.shape, device=self._device)
        for at in range(0, segment.rows, _UPLOAD_ROWS):
            part = slice(at, at + _UPLOAD_ROWS)
            points[part] = torch.from_numpy(np.array(segment.points[part]))
        return Resident(points, segment.form, float(points.norm(dim=1).max()))
