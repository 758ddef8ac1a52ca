from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.index.bounds import byte_codes as coding
from hasse.index.bounds.lower_bounds import Bounds, write_bounds
from hasse.index.bounds.quantizer import PAGE
from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.threads import Workers
from hasse.index.types import Orientation, Points
from tests.index.samples import embeddings, grid, scored

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]
ALL_LIVE = read_only(np.zeros(0, np.bool_))


def bounds_of(folder: Path, points: Points, orientation: Orientation, page: int = PAGE) -> Bounds:
    folder.mkdir(exist_ok=True)
    step = write_bounds(folder, points, orientation, page)
    return Bounds.open(folder, step, orientation, (points.shape[0], points.shape[1]), page)


@pytest.mark.parametrize("orientation", BOUNDED)
def test_codes_lie_on_the_side_of_their_point_that_makes_violations_smaller(
    orientation: Orientation, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    step = 2.0**-9
    points = np.vstack(
        [
            embeddings(rng, 40, 12),
            rng.integers(0, 255, (40, 12)) * np.float32(step),
            rng.random((40, 12)) * 1e-30,
        ]
    ).astype(np.float32)
    bounds = bounds_of(tmp_path, points, orientation, page=64)
    exact_step = Fraction(bounds.step)
    asked = bounds.begin(points).codes
    for row in range(len(points)):
        for j in range(12):
            point = Fraction(float(points[row, j]))
            stored, query = (int(code[row, j]) * exact_step for code in (bounds.codes, asked))
            low, high = (
                (query, stored) if orientation is Orientation.QUERY_GENERAL else (stored, query)
            )
            assert low <= point <= high


@pytest.mark.parametrize("orientation", BOUNDED)
def test_codes_lie_on_that_side_when_quotients_round_to_whole_numbers(
    orientation: Orientation,
) -> None:
    rng = np.random.default_rng(6)
    stored = np.empty((1, 1), np.uint8)
    for code in range(1, 255):
        point = rng.random((1, 1), dtype=np.float32)
        step = float(point[0, 0]) / code
        coding.encode_rows(point, step, orientation, stored)
        low, high = coding.encode_queries(point, step, orientation), stored
        if orientation is Orientation.STORED_GENERAL:
            low, high = high, low
        exact = Fraction(float(point[0, 0])) / Fraction(step)
        assert int(low[0, 0]) <= exact <= int(high[0, 0])


@pytest.mark.parametrize("orientation", BOUNDED)
def test_codes_of_coordinates_beyond_the_largest_saturate(
    orientation: Orientation,
) -> None:
    for largest in np.random.default_rng(7).random(100, dtype=np.float32).tolist():
        step = coding.step_for(largest)
        assert Fraction(largest) <= coding.TOP * Fraction(step)
        queries = np.array([[largest * 1.01, largest * 2, largest * 1e9]], np.float32)
        assert (coding.encode_queries(queries, step, orientation) == coding.TOP).all()


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("dimension", [1, 8, 64, 130])
def test_sum_of_squares_equals_numpy_over_the_codes(
    orientation: Orientation, dimension: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, 30, dimension)
    bounds = bounds_of(tmp_path, points, orientation)
    asked = bounds.begin(embeddings(rng, 1, dimension)).codes[0]
    gap = asked.astype(np.int64) - bounds.codes
    wanted = np.square(
        np.maximum(gap if orientation is Orientation.QUERY_GENERAL else -gap, 0)
    ).sum(1)
    for row in range(30):
        assert coding.sum_of_squares(bounds.codes, row, asked, int(orientation), 29) == wanted[row]


@settings(max_examples=60)
@given(
    orientation=st.sampled_from(BOUNDED),
    dimension=st.sampled_from([1, 5, 16, 33, 200]),
    rows=st.sampled_from([1, 127, 128, 129, 600]),
    seed=st.integers(0, 10_000),
    discrete=st.booleans(),
    scale=st.sampled_from([1, 1e-23]),  # the squares of the latter vanish
    proposed=st.booleans(),
    batch=st.sampled_from([3, 9]),
    page=st.sampled_from([64, PAGE]),
)
def test_bounds_rule_out_no_row_within_the_limit(
    tmp_path_factory: pytest.TempPathFactory,
    small_tasks: Workers,
    orientation: Orientation,
    dimension: int,
    rows: int,
    seed: int,
    discrete: bool,
    scale: float,
    proposed: bool,
    batch: int,
    page: int,
) -> None:
    rng = np.random.default_rng(seed)
    make = grid if discrete else embeddings
    points, queries = (make(rng, n, dimension) * np.float32(scale) for n in (rows, batch))
    excluded = read_only(rng.random(rows) < 0.2)
    exact = [scored(points, query, orientation) for query in queries]
    limits = np.array([np.quantile(violation, 0.1) for violation in exact])
    bounds = bounds_of(tmp_path_factory.mktemp("bounds"), points, orientation, page)
    bounded = bounds.begin(queries)
    if proposed:
        bounds.propose(bounded, 2, 0.5, excluded, small_tasks)
    found, checked = bounds.survivors(bounded, excluded, limits, small_tasks)
    for violation, limit, survivors, count in zip(exact, limits, found, checked, strict=True):
        within = np.flatnonzero((violation <= limit) & ~excluded)
        assert np.isin(within, survivors).all()
        assert not excluded[survivors].any()
        assert (np.diff(survivors) > 0).all()
        assert len(survivors) <= count <= rows


@pytest.mark.parametrize("orientation", BOUNDED)
def test_bounds_keep_a_row_whose_violation_was_rounded_down_to_the_limit(
    orientation: Orientation, tmp_path: Path
) -> None:
    # Codes that lose next to nothing, and a sum of equal terms whose float32 is too small. Which
    # terms these are depends on how many of them the processor adds at once.
    for number in range(255, 99, -1):
        alike = np.full((1, 2048), number * coding.step_for(1), np.float32)
        points, query = np.zeros((2, 2048), np.float32), alike
        points[1, 0] = 1  # the largest coordinate sets the step
        if orientation is Orientation.STORED_GENERAL:
            points[0], query = alike, np.zeros_like(alike)
        (limit, _) = scored(points, query[0], orientation)
        if limit < np.square(alike, dtype=np.float64).sum():
            break
    else:
        pytest.fail("no sum is rounded down")
    bounds = bounds_of(tmp_path, points, orientation)
    (found,), _ = bounds.survivors(bounds.begin(query), ALL_LIVE, np.array([limit]), Workers(1))
    assert 0 in found


def test_a_batch_of_images_leaves_hardly_more_captions_than_are_hits(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    points = embeddings(rng, 4096, 192)
    points[7:10] = points[7]  # ties
    points[11] = 0
    bounds = bounds_of(tmp_path, points, Orientation.STORED_GENERAL)
    queries = (0.8 * points[:40:5] + 0.2 * embeddings(rng, 8, 192)).astype(np.float32)
    exact = np.stack([scored(points, query, bounds.orientation) for query in queries])
    bounded, workers = bounds.begin(queries), Workers(1)
    bounds.propose(bounded, 20, 0.6, ALL_LIVE, workers)
    limits = np.sort(exact, axis=1)[:, 9].astype(np.float64)
    survivors, checked = bounds.survivors(bounded, ALL_LIVE, limits, workers)
    for violations, limit, rows in zip(exact, limits, survivors, strict=True):
        within = np.flatnonzero(violations <= limit)
        assert np.isin(within, rows).all()
    assert (survivors.counts <= 4096 / 20).all()
    assert (bounded.bytes_read <= 4096 * 192 / 2 + 192 * checked).all()


@pytest.mark.parametrize("orientation", BOUNDED)
def test_bounds_without_a_limit_keep_every_live_row(
    orientation: Orientation, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    points = embeddings(rng, 500, 40)
    bounds = bounds_of(tmp_path, points, orientation)
    excluded = read_only(rng.random(500) < 0.2)
    (found,), _ = bounds.survivors(
        bounds.begin(points[:1]), excluded, np.array([np.inf]), Workers(1)
    )
    assert np.array_equal(found, np.flatnonzero(~excluded))


def test_bounds_rule_out_nearly_every_row_of_a_large_segment(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    points = embeddings(rng, 4096, 64)
    bounds = bounds_of(tmp_path, points, Orientation.QUERY_GENERAL)
    query = (0.9 * points[17] + 0.1 * embeddings(rng, 1, 64)[0])[None].astype(np.float32)
    workers = Workers(1)
    exact = scored(points, query[0], bounds.orientation)
    limits = np.sort(exact)[[9]].astype(np.float64)
    bounded = bounds.begin(query)
    (survivors,), (checked,) = bounds.survivors(bounded, ALL_LIVE, limits, workers)
    assert 10 <= len(survivors) < 4096 / 10
    assert checked < 4096 / 2
    assert 0 < bounded.bytes_read[0] <= 4096 * 64 / 2 + checked * 64


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("page", [64, PAGE])
@pytest.mark.parametrize("batch", [5, 9])
def test_proposed_rows_come_with_a_lower_bound_on_all_others(
    orientation: Orientation,
    page: int,
    batch: int,
    tmp_path: Path,
    small_tasks: Workers,
) -> None:
    rng = np.random.default_rng(4)
    points = embeddings(rng, 1000, 32)
    bounds = bounds_of(tmp_path, points, orientation, page)
    queries = embeddings(rng, batch, 32)
    bounded = bounds.begin(queries)
    chosen, rests = bounds.propose(bounded, 50, 0.6, ALL_LIVE, small_tasks)
    least = np.empty(len(queries))
    for at, (query, rows) in enumerate(zip(queries, chosen, strict=True)):
        others = np.setdiff1d(np.arange(1000), rows)
        assert len(rows) == 50
        least[at] = scored(points, query, bounds.orientation)[others].min()
    assert (rests > 0).all()
    assert (rests <= bounded.largest(least)).all()


@pytest.mark.parametrize("alive", [0.02, 0.5, 1.0])
def test_propose_returns_as_many_rows_as_wanted_whatever_is_excluded(
    alive: float, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(5)
    points = grid(rng, 5000, 24)  # many ties
    bounds = bounds_of(tmp_path, points, Orientation.STORED_GENERAL)
    excluded = read_only(rng.random(5000) >= alive) if alive < 1 else ALL_LIVE
    (rows,), (rest,) = bounds.propose(bounds.begin(points[:1]), 40, 0.6, excluded, workers)
    assert len(rows) == 40
    assert np.isfinite(rest)
    assert not len(excluded) or not excluded[rows].any()
    (everything,), (rest,) = bounds.propose(bounds.begin(points[:1]), 6000, 0.6, excluded, workers)
    assert len(everything) == (5000 - excluded.sum() if len(excluded) else 5000)
    assert rest == np.inf
