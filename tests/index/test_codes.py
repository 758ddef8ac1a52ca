from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import codes as coding
from index.bounds import Bounds, write_bounds
from index.codes import BLOCK
from index.scan import Workers, read_only, score_rows
from index.terms import Form, Points
from tests.index.samples import embeddings, grid

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
    coded = bounds.encode(points)
    query_codes = np.empty_like(coded.codes)
    np.put_along_axis(query_codes, coded.order.astype(np.intp), coded.codes, axis=1)
    for row in range(len(points)):
        for j in range(12):
            point = Fraction(float(points[row, j]))
            stored = int(bounds.codes[row // BLOCK, j, row % BLOCK]) * exact_step
            asked = int(query_codes[row, j]) * exact_step
            low, high = (asked, stored) if form is Form.QUERY_ABOVE else (stored, asked)
            assert low <= point <= high


@pytest.mark.parametrize("form", BOUNDED)
@pytest.mark.parametrize("dimension", [1, 8, 17, 130])
def test_partial_sums_are_those_of_the_codes(form: Form, dimension: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, 300, dimension)
    bounds = bounds_of(tmp_path, points, form)
    coded = bounds.encode(embeddings(rng, 1, dimension))
    last = -(-dimension // 2)
    sums = np.empty(2 * BLOCK, np.uint32)
    coding.partial_sums(bounds.codes, coded.order[0], coded.codes[0], int(form), last, 0, 2, sums)
    stored = bounds.codes.transpose(0, 2, 1).reshape(-1, dimension)[:, coded.order[0, :last]]
    gap = coded.codes[0, :last].astype(np.int64) - stored
    gap = np.maximum(gap if form is Form.QUERY_ABOVE else -gap, 0)
    assert np.array_equal(sums, np.square(gap).sum(1))


@settings(max_examples=40, deadline=None)
@given(
    form=st.sampled_from(BOUNDED),
    dimension=st.sampled_from([1, 5, 16, 33, 200]),
    rows=st.sampled_from([1, 255, 256, 257, 600]),
    seed=st.integers(0, 10_000),
    discrete=st.booleans(),
)
def test_no_row_within_the_limit_is_ruled_out(
    tmp_path_factory: pytest.TempPathFactory,
    form: Form,
    dimension: int,
    rows: int,
    seed: int,
    discrete: bool,
) -> None:
    rng = np.random.default_rng(seed)
    make = grid if discrete else embeddings
    points, queries = make(rng, rows, dimension), make(rng, 3, dimension)
    bounds = bounds_of(tmp_path_factory.mktemp("bounds"), points, form)
    dead = read_only(rng.random(rows) < 0.2)
    workers = Workers(1)
    exact = [
        score_rows(read_only(points), np.arange(rows), query, form, workers) for query in queries
    ]
    limits = np.array([np.quantile(violation, 0.1) for violation in exact])
    found = bounds.survivors(bounds.encode(queries), dead, limits, workers)
    for violation, limit, survivors in zip(exact, limits, found, strict=True):
        within = np.flatnonzero((violation <= limit) & ~dead)
        assert np.isin(within, survivors).all()
        assert not dead[survivors].any()
        assert (np.diff(survivors) > 0).all()


def test_bounds_rule_out_nearly_every_row_of_a_large_segment(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    points = embeddings(rng, 4096, 64)
    bounds = bounds_of(tmp_path, points, Form.QUERY_ABOVE)
    query = (0.9 * points[17] + 0.1 * embeddings(rng, 1, 64)[0])[None].astype(np.float32)
    workers = Workers(1)
    exact = score_rows(read_only(points), np.arange(4096), query[0], bounds.form, workers)
    limits = np.sort(exact)[[9]].astype(np.float64)
    (survivors,) = bounds.survivors(bounds.encode(query), ALL_LIVE, limits, workers)
    assert 10 <= len(survivors) < 4096 / 10


def test_what_is_not_proposed_is_no_better_than_the_bound_that_comes_with_it(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(4)
    points = embeddings(rng, 1000, 32)
    bounds = bounds_of(tmp_path, points, Form.STORED_ABOVE)
    query = embeddings(rng, 1, 32)
    coded = bounds.encode(query)
    rows, rest = bounds.propose(coded, 0, 50, ALL_LIVE, workers)
    exact = score_rows(read_only(points), np.arange(1000), query[0], bounds.form, workers)
    others = np.setdiff1d(np.arange(1000), rows)
    assert len(rows) == 50
    for limit in np.linspace(0, exact.max(), 50):
        if rest > coded.thresholds(np.array([limit]))[0]:
            assert (exact[others] > limit).all()
