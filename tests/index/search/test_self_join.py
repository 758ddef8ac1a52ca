from __future__ import annotations

import numpy as np
import pytest

from hasse.index.kernels.threads import Workers
from hasse.index.search.self_join import self_join
from hasse.index.types import Ids, Points
from tests.index.samples import embeddings

Pairs = set[tuple[int, int]]


def joined(
    points: Points, distance: float, workers: Workers, times: Ids | None = None, window: int = 0
) -> Pairs:
    found = [pair for part in self_join(points, distance, workers, times, window) for pair in part]
    assert len(found) == len({tuple(pair.tolist()) for pair in found})
    return {(int(first), int(second)) for first, second in found}


def plainly(points: Points, distance: float) -> Pairs:
    exact = points.astype(np.float64)
    squares = np.square(exact).sum(1)
    between = squares[:, None] + squares - 2 * exact @ exact.T
    assert not np.any(np.abs(between - distance**2) < 1e-9)  # no pair is decided by rounding
    return {(int(i), int(j)) for i, j in np.argwhere(between <= distance**2) if i < j}


@pytest.mark.parametrize(("dimension", "distance"), [(3, 0.02), (24, 0.3), (200, 1.05)])
def test_self_join_finds_exactly_the_pairs_within_a_distance(
    dimension: int, distance: float, workers: Workers
) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, 1500, dimension)
    points[:300] = points[300:600] + rng.standard_normal((300, dimension)) * distance / 20
    expected = plainly(points, distance)
    assert len(expected) > 200
    assert joined(points, distance, workers) == expected


def test_self_join_of_equal_points_finds_every_pair(workers: Workers) -> None:
    points = np.ones((400, 5), np.float32)
    assert len(joined(points, 0.0, workers)) == 400 * 399 / 2


def test_self_join_of_few_points_needs_no_box_beside_theirs(workers: Workers) -> None:
    assert joined(np.zeros((0, 4), np.float32), 1.0, workers) == set()
    assert joined(np.eye(2, 4, dtype=np.float32), 2.0, workers) == {(0, 1)}


def test_self_join_with_times_finds_exactly_the_pairs_that_are_near_in_both(
    workers: Workers,
) -> None:
    rng = np.random.default_rng(5)
    points = embeddings(rng, 1200, 8)
    times = rng.integers(0, 10**6, 1200) + 1_700_000_000_000  # milliseconds need 41 bits
    found = joined(points, 0.5, workers, times, 20_000)
    near = {(i, j) for i, j in plainly(points, 0.5) if abs(times[i] - times[j]) <= 20_000}
    assert found == near
    assert len(found) > 100
