from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hasse.index.search.search
from hasse.index.catalog.selection import Selection
from hasse.index.errors import BadQueryError
from hasse.index.kernels.threads import Workers
from hasse.index.search.query import Answer, Query
from hasse.index.segments.cost_model import DEFAULT
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, CaptionRow, ImageRow, Kind, Mode, Points
from hasse.models.score import SCORES, Score
from tests.index.samples import BOUNDED, embeddings, grid, model, small_index, snapshot, violations
from tests.oracle import best

search_jointly = partial(hasse.index.search.search.search_jointly, costs=BOUNDED.costs)


def worst(kind: Kind, score: Score, stored: Points, parts: Points) -> NDArray[np.float64]:
    """The plain definition, for every stored row."""
    each = [violations(kind, score, stored, part) for part in parts]
    return np.asarray(np.max(each, axis=0))


def parts_of(answer: Answer) -> Points:
    """The violations of the hits with each part."""
    assert answer.parts is not None
    return answer.parts


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 65])
def test_joint_search_ranks_by_the_worst_part_as_numpy_does(
    kind: Kind, score: Score, dimension: int, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(dimension)
    for rows in (1, 50, 400):
        ids = rng.permutation(10 * rows)[:rows].astype(np.int64)
        points = grid(rng, rows, dimension)
        excluded = ids[rng.random(rows) < 0.15].tolist()
        alive = ~np.isin(ids, excluded)
        half = rows // 2
        blocks = [(ids[:half], points[:half]), (ids[half:], points[half:])]
        now = snapshot(
            tmp_path, kind, score, [block for block in blocks if len(block[0])], excluded
        )
        for count in (1, 2, 5):
            parts = grid(rng, count, dimension)
            expected = worst(kind, score, points, parts)
            for k in (1, 10):
                limit = max(0.0, float(np.median(expected))) if k == 10 else None
                wanted = best(expected[alive], ids[alive], k, np.inf if limit is None else limit)
                place = dict(zip(ids.tolist(), expected, strict=True))
                for mode in ("certified", "exact"):
                    for candidates in (None, 3):
                        query = Query(kind, k, mode, candidates, limit)
                        found = search_jointly(now, parts, query, workers)
                        assert found.ids.tolist() == wanted.tolist()
                        assert found.violations.tolist() == [place[hit] for hit in found.ids]
                        assert parts_of(found).max(1).tolist() == found.violations.tolist()
                        assert found.certified
                        assert found.searched == alive.sum()
                        assert found.rescored <= found.searched


@pytest.mark.parametrize("kind", KINDS)
def test_certified_joint_search_equals_exact_bit_for_bit_and_scores_fewer_rows(
    kind: Kind, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(1)
    points = embeddings(rng, 4000, 64)
    now = snapshot(tmp_path, kind, "order", [(np.arange(4000), points)])
    rescored = 0
    for _ in range(10):
        parts = embeddings(rng, 3, 64) * np.float32(0.7)
        exact = search_jointly(now, parts, Query(kind, 5, "exact"), workers)
        certified = search_jointly(now, parts, Query(kind, 5), workers)
        assert certified.ids.tolist() == exact.ids.tolist()
        assert certified.violations.tolist() == exact.violations.tolist()
        rescored += certified.rescored
    assert rescored < 10 * 4000


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_joint_search_of_a_selection_finds_what_numpy_finds(
    kind: Kind, score: Score, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    points = grid(rng, 300, 16)
    if score == "cosine":
        points *= rng.choice([-1, 1], points.shape)
    parts = points[rng.integers(0, 300, 4)]
    with Index.create(tmp_path / "i", model(16, score), threads=1, thresholds=BOUNDED) as index:
        for part in np.split(rng.permutation(300), [3, 50, 160]):
            rows = [ImageRow(int(at), "", "", split="ab"[at % 2]) for at in part]
            own = [CaptionRow(int(at), int(at), "words") for at in part]
            index.add(rows, points[part], own, points[part])
        index.remove(range(0, 300, 7))
        alive = np.array([at for at in range(1, 300, 2) if at % 7])
        stored = points[alive]
        expected = worst(kind, score, stored, parts)
        for k, limit in itertools.product((1, 10, 1000), (np.inf, *np.unique(expected)[[0, 2]])):
            wanted = best(expected, alive, k, max(0.0, limit))
            for mode in ("certified", "exact"):
                found = index.search_jointly(
                    Query(
                        kind,
                        k,
                        mode,
                        candidates=5,
                        max_violation=max(0.0, limit),
                        selection=Selection(split="b"),
                    ),
                    parts,
                )
                assert found.ids.tolist() == wanted.tolist()
                assert found.certified
                assert found.searched == len(alive)


@pytest.mark.parametrize("kind", KINDS)
def test_joint_search_checks_no_part_of_a_row_that_is_ruled_out(
    kind: Kind, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(6)
    ids, points = np.arange(10_000), grid(rng, 10_000, 16)
    now = snapshot(tmp_path, kind, "order", [(ids, points)])
    parts = points[rng.integers(0, 10_000, 8)]
    expected = worst(kind, "order", points, parts)
    for mode in ("certified", "exact"):
        found = search_jointly(now, parts, Query(kind, 10, mode), workers)
        assert found.ids.tolist() == best(expected, ids, 10).tolist()
        assert found.work.checked < 2 * len(ids)
        assert found.work.bytes < 5 * points.nbytes


def test_joint_search_bounds_further_parts_only_while_they_rule_out_enough(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(7)
    rows, each = 10_000, 32
    # Each picture has every second one of eight things, and each part asks for one of them.
    has = np.repeat(rng.random((rows, 8)) < 0.5, each, axis=1)
    points = (has * rng.uniform(0.5, 1, has.shape)).astype(np.float32)
    parts = 0.4 * np.repeat(np.eye(8, dtype=np.float32)[:4], each, axis=1)
    now = snapshot(tmp_path, "image", "order", [(np.arange(rows), points)])
    found = search_jointly(now, parts, Query("image", 10), workers)
    assert found.work.survivors == has[:, : 4 * each : each].all(1).sum(), "by all four"
    assert found.work.bounded == rows
    hopeless = parts + 10  # so every picture is nearly as bad
    found = search_jointly(now, hopeless, Query("image", 10), workers)
    exact = search_jointly(now, hopeless, Query("image", 10, "exact"), workers)
    assert found.ids.tolist() == exact.ids.tolist()
    assert found.work.checked <= rows, "by the first alone"


@pytest.mark.parametrize("mode", MODES)
def test_joint_search_with_one_part_answers_as_a_plain_search(mode: Mode, tmp_path: Path) -> None:
    with small_index(tmp_path / "index", rows=40, thresholds=BOUNDED) as index:
        query = embeddings(np.random.default_rng(2), 1, 16)
        alone, found = (
            index.search(Query("image", 5, mode), query[0]),
            index.search_jointly(Query("image", 5, mode), query),
        )
        assert found.ids.tolist() == alone.ids.tolist()
        assert found.violations.tolist() == alone.violations.tolist()


def test_joint_search_ignores_the_order_of_parts_and_repeated_ones(tmp_path: Path) -> None:
    with small_index(tmp_path / "index", rows=40, thresholds=BOUNDED) as index:
        parts = embeddings(np.random.default_rng(3), 3, 16)
        wanted = index.search_jointly(Query("caption", 7), parts).ids.tolist()
        for other in (parts[::-1], parts[[0, 1, 1, 2]]):
            assert index.search_jointly(Query("caption", 7), other).ids.tolist() == wanted


def test_fast_joint_search_is_certified_only_when_proved(tmp_path: Path, workers: Workers) -> None:
    rng = np.random.default_rng(4)
    for rows, sure in ((100, True), (2000, False)):
        now = snapshot(tmp_path, "image", "order", [(np.arange(rows), embeddings(rng, rows, 32))])
        parts = embeddings(rng, 2, 32)
        found = search_jointly(now, parts, Query("image", 3, "fast"), workers)
        assert found.certified is sure
        assert (found.rescored < rows) is not sure


def test_joint_search_proposes_as_many_rows_as_a_plain_search(
    tmp_path: Path, workers: Workers
) -> None:
    points = embeddings(np.random.default_rng(0), 2000, 16)
    now = snapshot(tmp_path, "image", "order", [(np.arange(2000), points)])
    counts: dict[Mode, int] = {"certified": 128, "fast": 600}
    for mode, count in counts.items():
        found = search_jointly(now, points[:2], Query("image", 10, mode), workers)
        assert found.work.proposed == count


def test_joint_search_is_certified_when_every_segment_is_and_counts_their_work(
    tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(9)
    points = embeddings(rng, 2040, 32)
    large = snapshot(tmp_path, "image", "order", [(np.arange(2000), points[:2000])])
    rest = [(np.arange(2000, 2040), points[2000:])]
    small = snapshot(tmp_path, "image", "order", rest, thresholds=DEFAULT)
    both = replace(large, segments=large.segments + small.segments)
    parts = embeddings(rng, 2, 32)
    found = search_jointly(both, parts, Query("image", 3, "fast"), workers)
    assert (found.certified, found.plan) == (False, "1 heaviest, 1 scan")
    assert (found.work.scanned, found.work.proposed, found.rescored) == (40, 600, 640)
    found = search_jointly(both, parts, Query("image", 3), workers)
    assert (found.certified, found.plan) == (True, "1 heaviest+bounds, 1 scan")
    assert found.work[:3] == (40, 128, 2000)
    few = replace(
        both, segments=(large.segments[0].excluding_ids(np.arange(5, 2000)), *small.segments)
    )
    found = search_jointly(few, parts, Query("image", 3), workers)
    assert (found.certified, found.plan) == (True, "2 scan")
    assert found.work[:5] == (45, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("kind", "score"), [("image", "order"), ("caption", "order"), ("caption", "cosine")]
)
def test_joint_search_proposes_rows_that_fit_all_parts_at_once(
    kind: Kind, score: Score, tmp_path: Path, workers: Workers
) -> None:
    rng = np.random.default_rng(8)
    # Each row has four of eight things; a part asks for one, or lacks one.
    has = np.repeat(rng.random((1000, 8)).argsort() < 4, 8, axis=1)
    points = (has * rng.uniform(0.5, 1, has.shape)).astype(np.float32)
    asks = np.repeat(np.eye(8, dtype=np.float32)[:3], 8, axis=1)
    parts = 1 - asks if (kind, score) == ("caption", "order") else 0.4 * asks
    now = snapshot(tmp_path, kind, score, [(np.arange(1000), points)])
    found = search_jointly(now, parts, Query(kind, 10, "fast", 60), workers)
    exact = search_jointly(now, parts, Query(kind, 10, "exact"), workers)
    assert found.violations.tolist() == exact.violations.tolist()
    assert found.work.proposed == 60
    assert found.work.bytes > 60 * parts.nbytes, "codes as well as points"


def test_joint_search_without_parts_is_refused(tmp_path: Path) -> None:
    with small_index(tmp_path / "index") as index, pytest.raises(BadQueryError, match="at least"):
        index.search_jointly(Query("image", 3), np.empty((0, 16), np.float32))
