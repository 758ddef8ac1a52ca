"""No row that the bounds of the cosine rule out can be a hit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.bounds.cosine import CosineBounds, write_cosine_bounds
from hasse.index.bounds.files import BASIS
from hasse.index.bounds.quantizer import PAGE
from hasse.index.errors import DamagedIndexError
from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import score_candidates
from hasse.index.types import Orientation, Points

ALL_LIVE = read_only(np.zeros(0, np.bool_))


def bounds_of(folder: Path, points: Points, page: int = PAGE) -> CosineBounds:
    step = write_cosine_bounds(folder, points, page)
    return CosineBounds.open(folder, step, Orientation.COSINE, (len(points), points.shape[1]), page)


def scored(points: Points, query: Points) -> Points:
    found = np.empty(len(points), np.float32)
    every = Candidates.of([np.arange(len(points))])
    asked = (every.rows, every.starts, query[None], int(Orientation.COSINE))
    score_candidates(read_only(points), *asked, 0, len(points), found)
    return found


def topics(rng: np.random.Generator, rows: int, dimension: int) -> Points:
    """Draw points near a few directions, as of real texts, most of them of unit length."""
    centres = rng.normal(size=(5, dimension)) * rng.exponential(size=dimension)
    points = centres[rng.integers(0, 5, rows)] + 0.1 * rng.normal(size=(rows, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[::7] *= rng.uniform(0, 3, (len(points[::7]), 1))
    return points.astype(np.float32)


@pytest.mark.parametrize("page", [64, PAGE])
@pytest.mark.parametrize("dimension", [1, 7, 24, 130])
@pytest.mark.parametrize("rows", [1, 129, 1000])
def test_every_row_within_the_limit_survives_and_others_are_ruled_out(
    rows: int, dimension: int, page: int, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(dimension)
    points = topics(rng, rows, dimension)
    queries = read_only(np.vstack([topics(rng, 6, dimension), points[:2], points[:1] * 0]))
    bounds = bounds_of(tmp_path, points, page)
    bounded = bounds.begin(queries)
    chosen, rests = bounds.propose(bounded, 10, 0.6, ALL_LIVE, workers)
    exact = np.stack([scored(points, query) for query in queries])
    limits = np.sort(exact, axis=1)[:, min(9, rows - 1)].astype(np.float64)
    survivors, checked = bounds.survivors(bounded, ALL_LIVE, limits, workers)
    for at, own in enumerate(exact):
        within = np.flatnonzero(own <= limits[at])
        assert np.isin(within, survivors[at]).all()
        others = np.setdiff1d(np.arange(rows), chosen[at])
        if len(others):
            assert rests[at] <= bounded.largest(np.full(len(queries), own[others].min()))[at]
    assert checked.tolist() == survivors.counts.tolist()
    if rows == 1000 and dimension > 1:
        assert np.median(checked[:6]) < 500, "bounds that rule out nothing are of no use"


def test_a_search_in_two_parts_is_bounded_without_proposals(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(0)
    points = topics(rng, 600, 24)
    bounds = bounds_of(tmp_path, points)
    query = topics(rng, 1, 24)
    exact = scored(points, query[0])
    limit = np.sort(exact)[9:10].astype(np.float64)
    survivors, _ = bounds.survivors(bounds.begin(query), ALL_LIVE, limit, workers)
    assert np.isin(np.flatnonzero(exact <= limit), survivors[0]).all()


def test_a_basis_that_is_damaged_is_named(tmp_path: Path) -> None:
    points = topics(np.random.default_rng(0), 200, 8)
    bounds_of(tmp_path, points)
    (tmp_path / BASIS).write_bytes(b"no array")
    with pytest.raises(DamagedIndexError, match=BASIS):
        CosineBounds.open(tmp_path, 1.0, Orientation.COSINE, points.shape)
