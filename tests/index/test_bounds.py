from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import codes as coding
from index.arrays import read_only
from index.bounds import Bounds, write_bounds
from index.terms import Form, Points
from index.workers import Workers
from tests.index.samples import embeddings, grid, scored

BOUNDED = [Form.QUERY_ABOVE, Form.STORED_ABOVE]
ALL_LIVE = read_only(np.zeros(0, np.bool_))


def bounds_of(folder: Path, points: Points, form: Form) -> Bounds:
    folder.mkdir(exist_ok=True)
    step = write_bounds(folder, points, form)
    return Bounds.open(folder, step, form, (points.shape[0], points.shape[1]))


@pytest.mark.parametrize("form", BOUNDED)
def test_codes_are_on_the_side_of_their_point_that_makes_violations_smaller(
    form: Form, tmp_path: Path
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
    bounds = bounds_of(tmp_path, points, form)
    exact_step = Fraction(bounds.step)
    asked = bounds.begin(points).codes
    for row in range(len(points)):
        for j in range(12):
            point = Fraction(float(points[row, j]))
            stored, query = (int(code[row, j]) * exact_step for code in (bounds.codes, asked))
            low, high = (query, stored) if form is Form.QUERY_ABOVE else (stored, query)
            assert low <= point <= high


@pytest.mark.parametrize("form", BOUNDED)
@pytest.mark.parametrize("dimension", [1, 8, 64, 130])
def test_sums_of_squares_are_those_of_the_codes(form: Form, dimension: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, 30, dimension)
    bounds = bounds_of(tmp_path, points, form)
    asked = bounds.begin(embeddings(rng, 1, dimension)).codes[0]
    gap = asked.astype(np.int64) - bounds.codes
    wanted = np.square(np.maximum(gap if form is Form.QUERY_ABOVE else -gap, 0)).sum(1)
    for row in range(30):
        assert coding.sum_of_squares(bounds.codes, row, asked, int(form), 29) == wanted[row]


@settings(max_examples=60)
@given(
    form=st.sampled_from(BOUNDED),
    dimension=st.sampled_from([1, 5, 16, 33, 200]),
    rows=st.sampled_from([1, 127, 128, 129, 600]),
    seed=st.integers(0, 10_000),
    discrete=st.booleans(),
    proposed=st.booleans(),
)
def test_no_row_within_the_limit_is_ruled_out(
    tmp_path_factory: pytest.TempPathFactory,
    form: Form,
    dimension: int,
    rows: int,
    seed: int,
    discrete: bool,
    proposed: bool,
) -> None:
    rng = np.random.default_rng(seed)
    make = grid if discrete else embeddings
    points, queries = make(rng, rows, dimension), make(rng, 3, dimension)
    bounds = bounds_of(tmp_path_factory.mktemp("bounds"), points, form)
    dead = read_only(rng.random(rows) < 0.2)
    workers = Workers(1)
    exact = [scored(points, query, form) for query in queries]
    limits = np.array([np.quantile(violation, 0.1) for violation in exact])
    bounded = bounds.begin(queries)
    if proposed:
        bounds.propose(bounded, 2, 0.5, dead, workers)
    found, checked = bounds.survivors(bounded, dead, limits, workers)
    for violation, limit, survivors, count in zip(exact, limits, found, checked, strict=True):
        within = np.flatnonzero((violation <= limit) & ~dead)
        assert np.isin(within, survivors).all()
        assert not dead[survivors].any()
        assert (np.diff(survivors) > 0).all()
        assert len(survivors) <= count <= rows


@pytest.mark.parametrize("form", BOUNDED)
def test_without_a_limit_every_live_row_is_possible(form: Form, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    points = embeddings(rng, 500, 40)
    bounds = bounds_of(tmp_path, points, form)
    dead = read_only(rng.random(500) < 0.2)
    (found,), _ = bounds.survivors(bounds.begin(points[:1]), dead, np.array([np.inf]), Workers(1))
    assert np.array_equal(found, np.flatnonzero(~dead))


def test_bounds_rule_out_nearly_every_row_of_a_large_segment(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    points = embeddings(rng, 4096, 64)
    bounds = bounds_of(tmp_path, points, Form.QUERY_ABOVE)
    query = (0.9 * points[17] + 0.1 * embeddings(rng, 1, 64)[0])[None].astype(np.float32)
    workers = Workers(1)
    exact = scored(points, query[0], bounds.form)
    limits = np.sort(exact)[[9]].astype(np.float64)
    bounded = bounds.begin(query)
    (survivors,), (checked,) = bounds.survivors(bounded, ALL_LIVE, limits, workers)
    assert 10 <= len(survivors) < 4096 / 10
    assert checked < 4096 / 2
    assert 0 < bounded.read[0] <= 4096 * 64 / 2 + checked * 64


@pytest.mark.parametrize("form", BOUNDED)
def test_what_is_not_proposed_is_no_better_than_the_bound_that_comes_with_it(
    form: Form, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(4)
    points = embeddings(rng, 1000, 32)
    bounds = bounds_of(tmp_path, points, form)
    query = embeddings(rng, 1, 32)
    bounded = bounds.begin(query)
    (rows,), (rest,) = bounds.propose(bounded, 50, 0.6, ALL_LIVE, workers)
    exact = scored(points, query[0], bounds.form)
    others = np.setdiff1d(np.arange(1000), rows)
    assert len(rows) == 50
    assert rest > 0
    limits = np.linspace(0, exact.max(), 50)
    for limit, largest in zip(limits, bounded.largest(limits), strict=True):
        if rest > largest:
            assert (exact[others] > limit).all()


@pytest.mark.parametrize("alive", [0.02, 0.5, 1.0])
def test_as_many_rows_are_proposed_as_were_asked_for_whatever_is_dead(
    alive: float, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(5)
    points = grid(rng, 5000, 24)  # many ties
    bounds = bounds_of(tmp_path, points, Form.STORED_ABOVE)
    dead = read_only(rng.random(5000) >= alive) if alive < 1 else ALL_LIVE
    (rows,), (rest,) = bounds.propose(bounds.begin(points[:1]), 40, 0.6, dead, workers)
    assert len(rows) == 40
    assert np.isfinite(rest)
    assert not len(dead) or not dead[rows].any()
    (everything,), (rest,) = bounds.propose(bounds.begin(points[:1]), 6000, 0.6, dead, workers)
    assert len(everything) == (5000 - dead.sum() if len(dead) else 5000)
    assert rest == np.inf
