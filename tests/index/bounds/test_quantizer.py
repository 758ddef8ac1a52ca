from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hasse.index.bounds.quantizer import BINS, LEVELS, choose_levels, encode_block, half_block
from hasse.index.types import Orientation, Points
from tests.index.samples import embeddings, grid

BOUNDED = [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL]


def levels_of_rows(points: Points, levels: NDArray[np.float32], orientation: Orientation) -> Points:
    """Encode points (R, N) block by block and return the level at which each coordinate stands."""
    rows, dimension = points.shape
    half = half_block(rows)
    found = []
    for start in range(0, rows, 2 * half):
        columns = np.full((dimension, half), 99, np.uint8)
        encode_block(points, start, np.ascontiguousarray(levels.T), int(orientation), columns)
        found.append(np.concatenate([columns & 15, columns >> 4], axis=1).T)
    places = np.concatenate(found)[:rows]  # (R, N)
    return np.asarray(levels[np.arange(dimension), places], np.float32)


@pytest.mark.parametrize("orientation", BOUNDED)
@pytest.mark.parametrize("rows", [1, 127, 128, 129, 700, 8192, 8193])
def test_encoded_rows_have_the_nearest_level_that_makes_violations_smaller(
    orientation: Orientation, rows: int
) -> None:
    rng = np.random.default_rng(rows)
    points = np.concatenate([embeddings(rng, rows, 5), grid(rng, rows, 4)], axis=1)
    points[:, 0] = 0
    points[:, 1] = 1e-38
    levels, _ = choose_levels(points, points.max(0), orientation)
    assert (np.diff(levels, axis=1) >= 0).all()
    found = levels_of_rows(points, levels, orientation)
    for j in range(9):
        if orientation is Orientation.QUERY_GENERAL:
            nearest = levels[j, np.searchsorted(levels[j], points[:, j], "left")]
        else:
            nearest = levels[j, np.searchsorted(levels[j], points[:, j], "right") - 1]
        assert np.array_equal(found[:, j], nearest)
    above = found - points if orientation is Orientation.QUERY_GENERAL else points - found
    assert (above >= 0).all()


@pytest.mark.parametrize("orientation", BOUNDED)
def test_shares_count_the_rows_at_each_level(orientation: Orientation) -> None:
    points = embeddings(np.random.default_rng(0), 600, 7)
    levels, shares = choose_levels(points, points.max(0), orientation)
    found = levels_of_rows(points, levels, orientation)
    for j in range(7):
        for level in np.unique(levels[j]):
            said = shares[j, levels[j] == level].sum()
            assert said == pytest.approx(np.mean(found[:, j] == level), abs=1e-6)


@settings(max_examples=15)
@given(orientation=st.sampled_from(BOUNDED), seed=st.integers(0, 1000))
def test_chosen_levels_cost_no_more_than_any_others(orientation: Orientation, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Two rows beyond what fits: exactly two values have to move to a neighbouring level.
    values = np.sort(rng.choice(BINS, LEVELS + 1, replace=False) + 1) / BINS
    values[-1] = 1.0
    points = values[:, None].astype(np.float32)
    levels, _ = choose_levels(points, points.max(0), orientation)

    def cost(chosen: NDArray[np.float64]) -> float:
        if orientation is Orientation.QUERY_GENERAL:
            moved = chosen[np.searchsorted(chosen, values - 1e-7)] - values
            return float((moved * (1 - values + 1e-3)).sum())
        moved = values - chosen[np.searchsorted(chosen, values + 1e-7) - 1]
        return float((moved * (values + 1e-3)).sum())

    def complete(some: NDArray[np.float64]) -> NDArray[np.float64]:
        return some if orientation is Orientation.QUERY_GENERAL else np.concatenate([[0.0], some])

    count = LEVELS if orientation is Orientation.QUERY_GENERAL else LEVELS - 1
    best = min(
        cost(complete(np.array(some)))
        for some in itertools.combinations(values.tolist(), count)
        if orientation is Orientation.STORED_GENERAL or some[-1] == values[-1]
    )
    # The weight of empty bins, a thousandth of a row each, may decide between near equals.
    assert cost(np.unique(levels[0].astype(np.float64))) <= best + 0.004


def test_blocks_have_equal_sizes_and_at_most_a_page_per_coordinate() -> None:
    for rows in (1, 100, 8192, 8193, 120_000, 1 << 20):
        half = half_block(rows)
        blocks = -(-rows // (2 * half))
        assert half % 64 == 0
        assert half <= 4096
        assert blocks == max(1, -(-rows // 8192))
        assert 2 * half * blocks - rows < 128 * blocks + 1
