from __future__ import annotations

import numpy as np
import pytest

from hasse.lab.evaluation.ranking import RankingMetrics, average_precisions, best_ranks


def matrix(*rows: list[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array(rows, dtype=np.float32)


def test_a_query_counts_at_its_best_true_item() -> None:
    penalty = matrix([0.3, 0.1, 0.2, 0.4])
    ranks, tied = best_ranks(penalty, np.array([[True, False, True, False]]))
    assert ranks.tolist() == [2]
    assert tied == 0


def test_half_of_the_ties_stand_before() -> None:
    penalty = matrix([0.5, 0.5, 0.5, 0.5, 0.5])
    ranks, tied = best_ranks(penalty, np.array([[False, True, False, False, False]]))
    assert ranks.tolist() == [3]  # 1 + 4 / 2, the middle
    assert tied == 1


def test_ties_among_true_items_are_none() -> None:
    penalty = matrix([0.5, 0.5, 0.9])
    ranks, tied = best_ranks(penalty, np.array([[True, True, False]]))
    assert ranks.tolist() == [1]
    assert tied == 0


def test_average_precision_is_that_of_the_textbook() -> None:
    penalty = matrix([0.1, 0.2, 0.3, 0.4])
    true = np.array([[True, False, True, False]])
    assert average_precisions(penalty, true)[0] == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_average_precision_of_one_penalty_for_all_is_the_share_that_is_true() -> None:
    penalty = matrix([0.7] * 8)
    true = np.array([[True, False, False, False, True, False, False, False]])
    assert average_precisions(penalty, true)[0] == pytest.approx(2 / 8)


def test_the_order_of_the_collection_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    penalty = rng.integers(0, 5, (20, 30)).astype(np.float32)
    true = rng.random((20, 30)) < 0.2
    true[:, 0] = True
    moved = rng.permutation(30)
    np.testing.assert_array_equal(
        best_ranks(penalty, true)[0], best_ranks(penalty[:, moved], true[:, moved])[0]
    )
    np.testing.assert_allclose(
        average_precisions(penalty, true), average_precisions(penalty[:, moved], true[:, moved])
    )


def test_metrics_follow_the_reference_formulas() -> None:
    ranks = np.array([1.0, 2.0, 7.0, 40.0])
    metrics = RankingMetrics.of(ranks, np.array([1.0, 0.5, 0.25, 0.25]), tied=1)
    assert (metrics.r1, metrics.r5, metrics.r10) == (25, 50, 75)
    assert metrics.median == 4  # floor(3.5) + 1 of the 0-based ranks 0, 1, 6, 39
    assert metrics.mean == 12.5
    assert metrics.mean_average_precision == 50
    assert (metrics.queries, metrics.tied) == (4, 1)


def test_half_a_rank_behind_is_not_among_the_first() -> None:
    metrics = RankingMetrics.of(np.array([1.5, 5.5, 10.5]), np.ones(3), tied=3)
    assert (metrics.r1, metrics.r5, metrics.r10) == pytest.approx((0, 100 / 3, 200 / 3))


def test_blocks_are_averaged_and_what_was_counted_is_added_up() -> None:
    one = RankingMetrics(10, 20, 30, 4, 5.5, 60, queries=100, tied=1)
    other = RankingMetrics(20, 40, 60, 1, 2.5, 80, queries=50, tied=3)
    blocks = [one, other, other]
    expected = RankingMetrics(50 / 3, 100 / 3, 50, 2, 3.5, 220 / 3, queries=200, tied=7)
    assert RankingMetrics.mean_of(blocks) == expected
