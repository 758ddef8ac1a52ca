"""All pairs of points within a distance of each other: an exact join of points with themselves.

Points are seen from their mean in the directions in which they vary most, c = B'x, and by how long
they are beside these, l = |x - Bc|. As B has columns of unit length at right angles,

    |x - y|^2  >=  |c - d|^2  +  (l - m)^2

for points with (c, l) and (d, m). Points are divided into boxes by these few coordinates and by
time. A box is compared only with boxes that are within reach, and two points only as far as their
bound allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.index.kernels.compiling import kernel, reduction
from hasse.index.kernels.threads import Workers
from hasse.index.types import Ids, Points

_DIRECTIONS = 16
_SAMPLE = 8192  # points that tell the directions
_LEAF = 128  # most points of a box, unless they are equal
# More than the float32 rounding of bounds and distances, as a share of the longest point.
_SLACK = 1e-4
_PER_THREAD = 64  # boxes compared at a time, which bounds the pairs in memory


def self_join(
    points: Points,
    distance: float,
    workers: Workers,
    times: Ids | None = None,
    window: int = 0,
) -> Iterator[NDArray[np.int32]]:
    """Yield all pairs of points (R, N) at most `distance` apart: (P, 2) positions in `points`.

    A distance is that of float32 points, summed in float32. With `times` (R,), only pairs at most
    `window` apart in time, too. Each pair comes once, the smaller position first, in no order.
    """
    moments = np.zeros(len(points), np.int64) if times is None else times
    boxes = _Boxes.of(_sides(points, distance), moments, window)
    limit = np.float32(distance) ** 2

    def pairs(box: int) -> NDArray[np.int32]:
        at, end = boxes.starts[box], boxes.starts[box + 1]
        starts, ends = boxes.near(box)
        found, count = np.empty((0, 2), np.int32), 0
        while at < end:
            more = max(2 * int((ends - starts).sum()), len(found))  # one point has half at most
            found = np.concatenate([found[:count], np.empty((more, 2), np.int32)])
            own = (points, boxes.order, boxes.sides, boxes.moments, window, limit)
            at, count = _compare(*own, at, end, starts, ends, found, count)
        return found[:count]

    together = _PER_THREAD * workers.threads
    for first in range(0, len(boxes.starts) - 1, together):
        some = range(first, min(first + together, len(boxes.starts) - 1))
        joined = np.concatenate(workers.map(pairs, some))
        yield np.sort(boxes.order[joined].astype(np.int32), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Points in the order of their boxes.

    Attributes:
        order: (R,) which point each is.
        sides: (R, S) float32 coordinates of the bound, in units of the distance.
        moments: (R,) their times.
        window: most that the times of a pair differ.
        starts: (L + 1,) where the points of each box begin, and R.
        least, most: (L, S) of the sides in each box.
        first, last: (L,) of the times in each box.
    """

    order: Ids
    sides: Points
    moments: Ids
    window: int
    starts: Ids
    least: Points
    most: Points
    first: Ids
    last: Ids

    @classmethod
    def of(cls, sides: Points, moments: Ids, window: int) -> _Boxes:
        """Halve boxes at the median of their widest side, until they are small."""
        order, starts = np.arange(len(sides)), []
        waiting = [(0, len(sides))] if len(sides) else []
        while waiting:
            start, end = waiting.pop()
            own, when = sides[order[start:end]], moments[order[start:end]]
            widths = np.append(own.max(0) - own.min(0), np.ptp(when) / (window + 1))
            if end - start <= _LEAF or not widths.any():
                starts.append(start)
                continue
            widest, middle = int(widths.argmax()), (end - start) // 2
            values = own[:, widest] if widest < own.shape[1] else when
            order[start:end] = order[start:end][np.argpartition(values, middle)]
            waiting += [(start + middle, end), (start, start + middle)]
        begins = np.array(starts, np.int64)
        placed, when = np.ascontiguousarray(sides[order]), moments[order]
        least, first = (np.minimum.reduceat(each, begins) for each in (placed, when))
        most, last = (np.maximum.reduceat(each, begins) for each in (placed, when))
        ends = np.append(begins, len(sides))
        return cls(order, placed, when, window, ends, least, most, first, last)

    def near(self, box: int) -> tuple[Ids, Ids]:
        """Return the ends of the boxes, from this one on, that may hold points near its own."""
        below, above = self.least[box:] - self.most[box], self.least[box] - self.most[box:]
        gaps = np.maximum(np.maximum(below, above), 0)
        between = np.maximum(self.first[box:] - self.last[box], self.first[box] - self.last[box:])
        found = box + np.flatnonzero((np.square(gaps).sum(1) <= 1) & (between <= self.window))
        return self.starts[found], self.starts[found + 1]


def _sides(points: Points, distance: float) -> Points:
    """Return the coordinates (R, S) of the bound, in units of the distance and a little more."""
    lengths = np.linalg.norm(points, axis=1)
    unit = max(distance + _SLACK * float(lengths.max(initial=0)), 1e-30)
    sample = points[:: max(1, len(points) // _SAMPLE)].astype(np.float64)
    mean = sample.mean(0) if len(sample) else 0.0
    sample -= mean
    basis = np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :_DIRECTIONS]
    sides = np.empty((len(points), basis.shape[1] + 1), np.float32)
    for at in range(0, len(points), _SAMPLE):
        block = points[at : at + _SAMPLE].astype(np.float64) - mean
        turned = block @ basis
        sides[at : at + _SAMPLE, :-1] = turned / unit
        sides[at : at + _SAMPLE, -1] = np.linalg.norm(block - turned @ basis.T, axis=1) / unit
    return sides


@reduction
def _squared_distance(one: Points, other: Points) -> np.float32:
    total = np.float32(0)
    for j in range(one.shape[0]):
        total += (one[j] - other[j]) ** 2
    return total


@kernel
def _compare(
    points: Points,
    order: Ids,
    sides: Points,
    moments: Ids,
    window: int,
    limit: np.float32,
    at: int,
    end: int,
    starts: Ids,
    ends: Ids,
    found: NDArray[np.int32],
    count: int,
) -> tuple[int, int]:
    """Write the pairs of the points [at, end) with later points of the boxes near theirs.

    Returns the first point that is left, since its pairs may not fit, and the number of pairs.
    """
    most = 0
    for box in range(starts.shape[0]):
        most += ends[box] - starts[box]
    while at < end and count + most <= found.shape[0]:
        for box in range(starts.shape[0]):
            for other in range(max(at + 1, starts[box]), ends[box]):
                if abs(moments[at] - moments[other]) > window:
                    continue
                bound = np.float32(0)
                for j in range(sides.shape[1]):
                    bound += (sides[at, j] - sides[other, j]) ** 2
                    if bound > 1:
                        break
                if bound > 1:
                    continue
                if _squared_distance(points[order[at]], points[order[other]]) <= limit:
                    found[count, 0], found[count, 1] = at, other
                    count += 1
        at += 1
    return at, count
