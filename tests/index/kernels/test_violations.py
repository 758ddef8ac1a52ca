from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.index.kernels.arrays import read_only
from hasse.index.kernels.candidates import Candidates
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.violations import relative_error
from hasse.index.search.search import scan, score_rows
from hasse.index.search.top_k import Hits, TopK
from hasse.index.types import Kind, Orientation, Points
from hasse.models.score import Score
from tests.index.samples import embeddings, grid, scored, violations
from tests.oracle import best

ONE = Workers(1)


def scanned(
    points: Points,
    queries: Points,
    orientation: Orientation,
    k: int,
    workers: Workers = ONE,
    limit: float = np.inf,
) -> list[Hits]:
    found = TopK(len(queries), k, limit)
    points, ids = read_only(points), read_only(np.arange(len(points)))
    excluded = read_only(np.zeros(0, np.bool_))
    scan(points, ids, excluded, queries, found, orientation=orientation, workers=workers)
    return found.hits()


def reference(
    points: Points, query: Points, orientation: Orientation
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    kind: Kind = "caption" if orientation is Orientation.STORED_GENERAL else "image"
    score: Score = "cosine" if orientation is Orientation.COSINE else "order"
    return violations(kind, score, points, query)


@pytest.mark.parametrize("orientation", Orientation)
@pytest.mark.parametrize("dimension", [1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 1000])
def test_violations_equal_the_plain_formula(orientation: Orientation, dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    points, queries = grid(rng, 30, dimension), grid(rng, 6, dimension)
    for query, hits in zip(queries, scanned(points, queries, orientation, 30), strict=True):
        expected = reference(points, query, orientation)
        assert hits.ids.tolist() == best(expected, np.arange(30), 30).tolist()
        assert np.array_equal(hits.violations, expected[hits.ids].astype(np.float32))


@settings(max_examples=60)
@given(st.sampled_from(Orientation), st.integers(1, 200), st.integers(0, 10_000))
def test_violation_rounding_stays_within_relative_error(
    orientation: Orientation, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-12, 6, dimension)
    points = (rng.random((20, dimension)) * scale).astype(np.float32)
    query = (rng.random(dimension) * scale).astype(np.float32)
    (hits,) = scanned(points, query[None], orientation, 20)
    expected = reference(points, query, orientation)[hits.ids]
    if orientation is Orientation.COSINE:
        assert hits.violations == pytest.approx(expected, rel=1e-4, abs=1e-5)
    else:
        error = np.abs(hits.violations - expected)
        assert (error <= relative_error(dimension) * expected + dimension * 2.0**-126).all()


@pytest.mark.parametrize("orientation", Orientation)
def test_violation_bits_do_not_depend_on_the_batch_or_the_thread(
    orientation: Orientation, small_tasks: Workers
) -> None:
    rng = np.random.default_rng(1)
    points, queries = embeddings(rng, 200, 77), embeddings(rng, 7, 77)
    together = scanned(points, queries, orientation, 200, small_tasks)
    for query, hits in zip(queries, together, strict=True):
        (alone,) = scanned(points, query[None], orientation, 200)
        assert np.array_equal(alone.ids, hits.ids)
        assert np.array_equal(alone.violations, hits.violations)
        assert np.array_equal(
            scored(points, query, orientation, small_tasks)[alone.ids], alone.violations
        )


@pytest.mark.parametrize("orientation", Orientation)
def test_candidate_violations_equal_those_of_a_scan_of_one_query(
    orientation: Orientation, small_tasks: Workers
) -> None:
    rng = np.random.default_rng(4)
    points, queries = embeddings(rng, 300, 77), embeddings(rng, 6, 77)
    rows = [np.sort(rng.choice(300, count, replace=False)) for count in (0, 40, 1, 0, 300, 7)]
    together = score_rows(read_only(points), Candidates.of(rows), queries, orientation, small_tasks)
    alone = [
        scored(points, query, orientation)[own] for query, own in zip(queries, rows, strict=True)
    ]
    assert np.array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("orientation", [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL])
def test_violation_rounding_in_one_direction_stays_within_relative_error(
    orientation: Orientation,
) -> None:
    origin = np.zeros((1, 64_000), np.float32)
    for value in np.linspace(0.1, 1, 10, dtype=np.float32):
        alike = np.full_like(origin, value)
        points, queries = (
            (origin, alike) if orientation is Orientation.QUERY_GENERAL else (alike, origin)
        )
        (violation,) = scored(points, queries[0], orientation)
        (expected,) = reference(points, queries[0], orientation)
        assert abs(violation - expected) <= relative_error(64_000) * expected


@pytest.mark.parametrize("orientation", Orientation)
def test_scan_with_a_limit_includes_rows_exactly_at_it(orientation: Orientation) -> None:
    rng = np.random.default_rng(3)
    # A multiple of 128, so that all of a row is summed before it is scored.
    points, query = embeddings(rng, 100, 384), embeddings(rng, 1, 384)
    exact = scored(points, query[0], orientation).astype(np.float64)
    for limit in exact.tolist():
        wanted = best(exact, np.arange(100), 100, limit).tolist()
        for hits in scanned(points, np.repeat(query, 5, axis=0), orientation, 100, limit=limit):
            assert hits.ids.tolist() == wanted


def test_violation_is_zero_of_a_point_with_itself_and_with_the_origin() -> None:
    points = embeddings(np.random.default_rng(2), 5, 70)
    queries = np.vstack([points, np.zeros_like(points[:1])])
    found = scanned(points, queries, Orientation.QUERY_GENERAL, 1)
    assert [hits.ids[0] for hits in found] == [0, 1, 2, 3, 4, 0]
    assert all(hits.violations[0] == 0 for hits in found)


@pytest.mark.parametrize("orientation", [Orientation.QUERY_GENERAL, Orientation.STORED_GENERAL])
@pytest.mark.parametrize("dimension", [128, 131, 400])
def test_scan_of_a_batch_loses_no_hit_and_no_bit(orientation: Orientation, dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    for make in (embeddings, grid):
        points, queries = make(rng, 700, dimension), make(rng, 9, dimension)
        queries[:3] = points[:3]
        for k in (1, 10, 900):
            together = scanned(points, queries, orientation, k)
            for query, hits in zip(queries, together, strict=True):
                everything = scored(points, query, orientation)
                wanted = best(everything.astype(np.float64), np.arange(700), k)
                assert hits.ids.tolist() == wanted.tolist()
                assert np.array_equal(hits.violations, everything[wanted])
