from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.kernels.threads import Workers
from hasse.index.search import plain
from hasse.index.search.plain import PlainSearch
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import CompiledSearch
from hasse.index.segments.snapshot import Snapshot
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, Kind, Mode, Orientation, Relation
from hasse.models.score import SCORES, Score
from tests.index.samples import BOUNDED, embeddings, grid, small_index, snapshot

RELATIONS: tuple[Relation, ...] = ("alike", "more_specific", "more_general")


def same(left: Answer, right: Answer) -> bool:
    return np.array_equal(left.ids, right.ids) and np.array_equal(left.violations, right.violations)


def generation(folder: Path, kind: Kind, score: Score) -> Snapshot:
    """Rows whose violations are exact in float32, with ties, in two segments."""
    rng = np.random.default_rng(3)
    ids, points = rng.permutation(900)[:300], grid(rng, 300, 33)
    blocks = [(ids[:120], points[:120]), (ids[120:], points[120:])]
    return snapshot(folder, kind, score, blocks, excluded=ids[::7].tolist())


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_plain_search_finds_what_the_compiled_search_finds_ties_included(
    kind: Kind, score: Score, tmp_path: Path, workers: Workers
) -> None:
    now = generation(tmp_path, kind, score)
    compiled = CompiledSearch(workers, BOUNDED.costs, None)
    queries = grid(np.random.default_rng(4), 6, 33)
    for query in (Query(kind, 10), Query(kind, 400, max_violation=0.25), Query(kind, 1, "exact")):
        found = PlainSearch().answers(now, queries, query)
        for own, other in zip(found, compiled.answers(now, queries, query), strict=True):
            assert same(own, other)
            assert own.searched == other.searched
            assert own.certified
        joint = PlainSearch().joint_answer(now, queries[:3], query)
        expected = compiled.joint_answer(now, queries[:3], query)
        assert same(joint, expected)
        assert np.array_equal(joint.parts, expected.parts)  # type: ignore[arg-type]
    for relation in RELATIONS:
        query = Query(kind, 10, relation=relation)
        (own,) = PlainSearch().answers(now, queries[:1], query)
        (other,) = compiled.answers(now, queries[:1], query)
        assert same(own, other)


@pytest.mark.parametrize("orientation", Orientation)
def test_plain_violation_bits_do_not_depend_on_the_rows_beside_it(orientation: Orientation) -> None:
    rng = np.random.default_rng(5)
    points, (query,) = embeddings(rng, 40, 77), embeddings(rng, 1, 77)
    together = plain.violations(points, query, orientation)
    for row in range(0, 40, 7):
        (alone,) = plain.violations(points[row : row + 1], query, orientation)
        assert alone == together[row]


def test_plain_search_of_a_point_that_is_not_a_number_finds_nothing(tmp_path: Path) -> None:
    now = generation(tmp_path, "image", "order")
    (answer,) = PlainSearch().answers(now, np.full((1, 33), np.nan, np.float32), Query("image", 3))
    assert not len(answer.ids)


@pytest.mark.parametrize("mode", MODES)
def test_an_index_opened_for_one_question_answers_as_any_other(mode: Mode, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    with small_index(tmp_path / "index", 40, thresholds=BOUNDED) as index:
        point, query = embeddings(rng, 1, 16)[0], Query("image", 7, mode)
        expected = index.search(query, point)
        scored = index.violations([3, 5, 99], point)
    with Index.open(tmp_path / "index", one_off=True) as once:
        found = once.search(query, point)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.violations == pytest.approx(expected.violations, rel=1e-6)
        assert found.plan.endswith("scan")
        again = once.violations([3, 5, 99], point)
        assert again == pytest.approx(scored, rel=1e-6)
        assert all(segment.plan == "scan" for segment in once.info().segments)


def test_one_off_index_that_is_large_is_searched_by_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasse.index.store.MAX_BYTES", 39 * 16 * 4)
    small_index(tmp_path / "index", 40, thresholds=BOUNDED).close()
    thresholds, point = BOUNDED, embeddings(np.random.default_rng(6), 1, 16)[0]
    with Index.open(tmp_path / "index", thresholds=thresholds, one_off=True) as large:
        assert "bounds" in large.search(Query("image", 1, candidates=3), point).plan
