"""All pairs of points within a distance of each other: an exact join of points with themselves.

Each point x, relative to the mean, gets coordinates in the directions in which points vary most,
c = B'x, and the length of the rest, l = |x - Bc|. B has orthonormal columns, so

    |x - y|^2  >=  |c - d|^2  +  (l - m)^2

for points with (c, l) and (d, m). Points are divided into boxes by these few coordinates and by
time. A box is compared only with boxes within the distance, and two points only if their bound is
within it.
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
_SAMPLE = 8192  # points from which the directions are computed
_LEAF = 128  # largest number of points in a box, unless all are equal
# More than the float32 rounding of bounds and distances, as a share of the longest point.
_SLACK = 1e-4
_BOXES_PER_THREAD = 64  # compared at once, to bound the pairs in memory


def self_join(
    points: Points,
    distance: float,
    workers: Workers,
    times: Ids | None = None,
    window: int = 0,
) -> Iterator[NDArray[np.int32]]:
    """Yield all pairs of points (R, N) at most `distance` apart: (P, 2) positions in `points`.

    Distances are computed in float32. With `times` (R,), the times of a pair must also differ by at
    most `window`. Each pair is yielded once, the smaller position first; pairs are in no order.
    """
    moments = np.zeros(len(points), np.int64) if times is None else times
    boxes = _Boxes.of(_sides(points, distance), moments, window)
    limit = np.float32(distance) ** 2

    def pairs(box: int) -> NDArray[np.int32]:
        at, end = boxes.starts[box], boxes.starts[box + 1]
        starts, ends = boxes.near(box)
        result, count = np.empty((0, 2), np.int32), 0
        while at < end:
            # Room for the pairs of at least two points.
            room = max(2 * int((ends - starts).sum()), len(result))
            result = np.concatenate([result[:count], np.empty((room, 2), np.int32)])
            arguments = (points, boxes.order, boxes.sides, boxes.moments, window, limit)
            at, count = _compare(*arguments, at, end, starts, ends, result, count)
        return result[:count]

    step = _BOXES_PER_THREAD * workers.threads
    for first in range(0, len(boxes.starts) - 1, step):
        batch = range(first, min(first + step, len(boxes.starts) - 1))
        joined = np.concatenate(workers.map(pairs, batch))
        yield np.sort(boxes.order[joined].astype(np.int32), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Points in the order of their boxes.

    Attributes:
        order: (R,) the original positions of the points.
        sides: (R, S) float32 coordinates of the bound, in units of the distance.
        moments: (R,) times of the points.
        window: largest difference of the times of a pair.
        starts: (L + 1,) the start of each box in the order, and R.
        least, most: (L, S) smallest and largest sides in each box.
        first, last: (L,) first and last time in each box.
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
        stack = [(0, len(sides))] if len(sides) else []
        while stack:
            start, end = stack.pop()
            box_sides, times = sides[order[start:end]], moments[order[start:end]]
            widths = np.append(box_sides.max(0) - box_sides.min(0), np.ptp(times) / (window + 1))
            if end - start <= _LEAF or not widths.any():
                starts.append(start)
                continue
            widest, middle = int(widths.argmax()), (end - start) // 2
            values = box_sides[:, widest] if widest < box_sides.shape[1] else times
            order[start:end] = order[start:end][np.argpartition(values, middle)]
            stack += [(start + middle, end), (start, start + middle)]
        box_starts = np.array(starts, np.int64)
        ordered, times = np.ascontiguousarray(sides[order]), moments[order]
        least, first = (np.minimum.reduceat(each, box_starts) for each in (ordered, times))
        most, last = (np.maximum.reduceat(each, box_starts) for each in (ordered, times))
        edges = np.append(box_starts, len(sides))
        return cls(order, ordered, times, window, edges, least, most, first, last)

    def near(self, box: int) -> tuple[Ids, Ids]:
        """Return starts and ends of the boxes, from `box` on, that may hold points near its own."""
        below, above = self.least[box:] - self.most[box], self.least[box] - self.most[box:]
        gaps = np.maximum(np.maximum(below, above), 0)
        between = np.maximum(self.first[box:] - self.last[box], self.first[box] - self.last[box:])
        boxes = box + np.flatnonzero((np.square(gaps).sum(1) <= 1) & (between <= self.window))
        return self.starts[boxes], self.starts[boxes + 1]


def _sides(points: Points, distance: float) -> Points:
    """Return the coordinates (R, S) of the bound, in units of the distance plus the slack."""
    lengths = np.linalg.norm(points, axis=1)
    unit = max(distance + _SLACK * float(lengths.max(initial=0)), 1e-30)
    sample = points[:: max(1, len(points) // _SAMPLE)].astype(np.float64)
    mean = sample.mean(0) if len(sample) else 0.0
    sample -= mean
    basis = np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :_DIRECTIONS]
    sides = np.empty((len(points), basis.shape[1] + 1), np.float32)
    for at in range(0, len(points), _SAMPLE):
        block = points[at : at + _SAMPLE].astype(np.float64) - mean
        coordinates = block @ basis
        rest = np.linalg.norm(block - coordinates @ basis.T, axis=1)
        sides[at : at + _SAMPLE, :-1] = coordinates / unit
        sides[at : at + _SAMPLE, -1] = rest / unit
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
    pairs: NDArray[np.int32],
    count: int,
) -> tuple[int, int]:
    """Write the pairs of the points [at, end) with later points of the near boxes [starts, ends).

    Returns the first point that was not compared, because its pairs may not fit, and the number of
    pairs.
    """
    most = 0
    for box in range(starts.shape[0]):
        most += ends[box] - starts[box]
    while at < end and count + most <= pairs.shape[0]:
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
                    pairs[count, 0], pairs[count, 1] = at, other
                    count += 1
        at += 1
    return at, count
