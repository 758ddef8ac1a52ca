from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hasse.index.search.search
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Answer, Query, RowCounts, candidate_count
from hasse.index.segments.cost_model import DEFAULT
from hasse.index.segments.snapshot import Snapshot
from hasse.index.types import KINDS, MODES, Kind, Points
from hasse.models.score import SCORES, Score
from tests.index.samples import BOUNDED, embeddings, grid, model, snapshot, violations
from tests.oracle import best

Block = tuple[NDArray[np.int64], Points]

search = partial(hasse.index.search.search.search, costs=BOUNDED.costs)


def split(rng: np.random.Generator, ids: NDArray[np.int64], points: Points) -> list[Block]:
    """Deal rows out to a few segments, in any order."""
    parts = rng.integers(0, 3, len(ids))
    orders = [rng.permutation(np.flatnonzero(parts == part)) for part in range(3)]
    return [(ids[rows], points[rows]) for rows in orders if len(rows)]


def same(left: Answer, right: Answer) -> bool:
    return np.array_equal(left.ids, right.ids) and np.array_equal(left.violations, right.violations)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 7, 16, 65])
def test_certified_and_exact_search_find_what_numpy_finds(
    kind: Kind, score: Score, dimension: int, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(dimension)
    for rows in (1, 70, 400):
        ids = rng.permutation(10 * rows)[:rows].astype(np.int64)
        points = grid(rng, rows, dimension)
        excluded = ids[rng.random(rows) < 0.15].tolist()
        alive = ~np.isin(ids, excluded)
        now = snapshot(tmp_path, kind, score, split(rng, ids, points), excluded)
        queries = np.vstack([grid(rng, 28, dimension), points[rng.integers(0, rows, 4)]])
        expected = [violations(kind, score, points, query) for query in queries]
        for k in (1, 10, 100):
            limit = max(0.0, float(np.median(expected))) if k == 100 else None
            for mode in ("certified", "exact"):
                query = Query(kind, k, mode, max_violation=limit)
                answers = search(now, queries, query, workers)
                for answer, violation in zip(answers, expected, strict=True):
                    wanted = best(violation[alive], ids[alive], k, query.limit)
                    place = dict(zip(ids.tolist(), violation, strict=True))
                    assert answer.ids.tolist() == wanted.tolist()
                    assert answer.violations.tolist() == [place[hit] for hit in answer.ids]
                    assert answer.certified
                    assert answer.searched == alive.sum()
                    assert answer.rescored <= answer.searched


@pytest.mark.parametrize("score", ["order", "order-reversed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [33, 257, 1024])
def test_certified_search_equals_exact_search_bit_for_bit(
    kind: Kind, score: Score, dimension: int, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(dimension)
    points = embeddings(rng, 700, dimension)
    now = snapshot(tmp_path, kind, score, split(rng, np.arange(700), points))
    near = points[rng.integers(0, 700, 20)] * rng.uniform(0.9, 1.1, (20, dimension))
    queries = np.vstack([near.astype(np.float32), embeddings(rng, 20, dimension)])
    for k in (1, 10):
        exact = search(now, queries, Query(kind, k, "exact"), workers)
        certified = search(now, queries, Query(kind, k, "certified"), workers)
        for want, got, query in zip(exact, certified, queries, strict=True):
            assert same(got, want)
            plain = violations(kind, score, points, query)
            assert want.violations == pytest.approx(np.sort(plain)[:k], rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_batched_search_answers_what_single_searches_answer(
    mode: str, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(5)
    now = snapshot(tmp_path, "image", "order", [(np.arange(300), embeddings(rng, 300, 40))])
    queries = embeddings(rng, 9, 40)
    query = Query("image", 5, mode)  # type: ignore[arg-type]
    for at, answer in enumerate(search(now, queries, query, workers)):
        (alone,) = search(now, queries[at : at + 1], query, workers)
        assert same(alone, answer)
        assert (alone.rescored, alone.certified) == (answer.rescored, answer.certified)


@pytest.mark.parametrize("kind", KINDS)
def test_search_of_split_and_permuted_segments_answers_the_same(
    kind: Kind, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(6)
    ids, points = np.arange(250), embeddings(rng, 250, 48)
    points[100:110] = points[0]
    queries = np.vstack([embeddings(rng, 10, 48), points[:1]])
    query = Query(kind, 12)
    whole = search(snapshot(tmp_path, kind, "order", [(ids, points)]), queries, query, workers)
    for _ in range(4):
        blocks = split(rng, ids, points)
        parts = search(snapshot(tmp_path, kind, "order", blocks), queries, query, workers)
        assert all(same(left, right) for left, right in zip(whole, parts, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_fast_search_is_certified_only_when_proved(
    kind: Kind, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(7)
    said = {True: 0, False: 0}
    for rows, dimension in ((40, 16), (50, 64), (500, 16), (500, 64)):
        points = embeddings(rng, rows, dimension)
        now = snapshot(tmp_path, kind, "order", [(np.arange(rows), points)])
        queries = embeddings(rng, 40, dimension)
        exact = search(now, queries, Query(kind, 3, "exact"), workers)
        for candidates in (3, 20, None):
            fast = search(now, queries, Query(kind, 3, "fast", candidates), workers)
            for want, got in zip(exact, fast, strict=True):
                said[got.certified] += 1
                assert same(got, want) or not got.certified
                assert got.rescored <= max(candidates or rows, 3)
    assert said[True] > 50
    assert said[False] > 50


def test_search_uses_the_candidates_of_its_own_query(tmp_path: Path, workers: Workers) -> None:
    rng = np.random.default_rng(8)
    now = snapshot(tmp_path, "image", "order", [(np.arange(400), embeddings(rng, 400, 24))])
    queries = embeddings(rng, 1, 24)
    wide = search(now, queries, Query("image", 2, "fast"), workers)[0].rescored
    (narrow,) = search(now, queries, Query("image", 2, "fast", 5), workers)
    (again,) = search(now, queries, Query("image", 2, "fast"), workers)
    assert narrow.rescored <= 5 < wide == again.rescored


def test_candidate_count_grows_with_k_and_in_fast_mode_with_rows() -> None:
    counts = [candidate_count(Query("image", k), 1_000_000) for k in (10, 100, 1000)]
    assert counts == [128, 400, 4000]
    counts = [
        candidate_count(Query("image", 10, "fast"), rows) for rows in (1000, 90_000, 1_000_000)
    ]
    assert counts == [600, 600, 2000]
    counts = [candidate_count(Query("image", k, "fast"), 1000) for k in (1, 100, 1000)]
    assert counts == [600, 1140, 6540]
    assert candidate_count(Query("caption", 100, "fast"), 1_000_000) == 3080
    assert candidate_count(Query("image", 1000, "fast", 7), 1_000_000) == 7


def test_search_reads_only_the_live_rows_when_they_are_few(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(12)
    points = embeddings(rng, 700, 8)
    for kind in KINDS:
        now = snapshot(tmp_path, kind, "order", [(np.arange(700), points)], range(10, 700))
        for mode in ("certified", "fast"):
            (answer,) = search(now, points[:1], Query(kind, 3, mode, candidates=5), workers)
            assert answer.certified
            assert answer.work == RowCounts(10, 0, 0, 0, 0, bytes=10 * 8 * 4)


def test_plan_names_how_each_segment_was_searched(tmp_path: Path, workers: Workers) -> None:
    rng = np.random.default_rng(9)
    large = snapshot(tmp_path, "caption", "order", [(np.arange(90), embeddings(rng, 90, 8))])
    middle = snapshot(tmp_path, "caption", "order", [(np.arange(50), embeddings(rng, 50, 8))])
    few = [(np.arange(20), embeddings(rng, 20, 8))]
    small = snapshot(tmp_path, "caption", "order", few, thresholds=DEFAULT)
    now: Snapshot = replace(large, segments=large.segments + middle.segments + small.segments)
    queries = embeddings(rng, 1, 8)

    def plan(mode: str) -> str:
        query = Query("caption", 1, mode, candidates=5)  # type: ignore[arg-type]
        return search(now, queries, query, workers)[0].plan

    assert plan("exact") == "3 scan"
    assert plan("certified") == "2 heaviest+bounds, 1 scan"
    assert plan("fast") == "1 heaviest, 1 prefilter, 1 scan"


def test_work_counts_the_rows_and_bytes_of_each_stage(tmp_path: Path, workers: Workers) -> None:
    rng = np.random.default_rng(10)
    now = snapshot(tmp_path, "image", "order", [(np.arange(600), embeddings(rng, 600, 130))])
    queries = embeddings(rng, 3, 130)
    for answer in search(now, queries, Query("image", 5, "exact"), workers):
        assert answer.work == RowCounts(600, 0, 0, 0, 0, bytes=600 * 130 * 4)
    for answer in search(now, queries, Query("image", 5, candidates=40), workers):
        assert (answer.work.scanned, answer.work.bounded) == (0, 600)
        assert 5 <= answer.work.proposed <= 40
        assert answer.work.proposed <= answer.rescored
        assert answer.rescored <= answer.work.proposed + answer.work.survivors
        assert answer.work.survivors <= answer.work.checked <= 600
        assert 0 < answer.work.bytes < 600 * 130 * 6


@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_queries_are_answered_as_numpy_answers_them(
    kind: Kind, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(11)
    asked = 0
    for dimension, rows, make in ((5, 90, grid), (33, 257, grid), (130, 300, grid)):
        ids = rng.permutation(5 * rows)[:rows].astype(np.int64)
        points = make(rng, rows, dimension)
        excluded = ids[rng.random(rows) < 0.2].tolist()
        alive = ~np.isin(ids, excluded)
        folder = tmp_path / str(dimension)
        folder.mkdir()
        now = snapshot(folder, kind, "order", split(rng, ids, points), excluded)
        for k in (3, 400):
            queries = np.vstack([make(rng, 420, dimension), points, points[:0]])[:420]
            answers = [
                search(now, queries, Query(kind, k, mode), workers)
                for mode in ("certified", "exact")
            ]
            for b, query in enumerate(queries):
                plain = violations(kind, "order", points, query)
                wanted = best(plain[alive], ids[alive], k)
                for mode in answers:
                    asked += 1
                    assert mode[b].ids.tolist() == wanted.tolist()
                    assert mode[b].certified
    assert asked == 2 * 2 * 3 * 420


def test_search_of_an_empty_generation_is_certified_and_has_no_hits(workers: Workers) -> None:
    (answer,) = search(
        Snapshot(0, model(4), ()), np.ones((1, 4), np.float32), Query("image", 3), workers
    )
    assert len(answer.ids) == len(answer.violations) == answer.searched == 0
    assert answer.certified
