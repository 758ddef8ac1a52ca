from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.studies.labelled_pairs import best_threshold, called_right

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30)


@given(PAIRS)
def test_no_cut_is_better_and_it_lies_between_distinct_scores(
    pairs: list[tuple[int, bool]],
) -> None:
    scores, true = np.array([s for s, _ in pairs]) / 7, np.array([t for _, t in pairs])
    found = best_threshold(scores, true)
    assert found.value not in scores
    assert called_right(scores, true, found.value).mean() == pytest.approx(found.accuracy)
    every = [((scores < cut) == true).mean() for cut in (*scores, scores.max() + 1)]
    assert found.accuracy == pytest.approx(max(every))


def test_a_model_that_gives_everything_one_score_gets_the_majority() -> None:
    found = best_threshold(np.zeros(10), np.arange(10) < 3)
    assert found.accuracy == 0.7


def test_of_equally_good_cuts_the_lowest_is_taken() -> None:
    assert best_threshold([0.1, 0.2, 0.3], [True, False, True]).value == pytest.approx(0.15)


def test_scores_one_step_of_float32_apart_are_told_apart() -> None:
    low = np.float32(0.1)
    for _ in range(2):  # halfway between them float32 would round down, and then up
        high = np.nextafter(low, np.float32(1))
        scores = np.array([low, high])
        found = best_threshold(scores, [True, False])
        assert found.accuracy == 1
        assert called_right(scores, [True, False], found.value).all()
        low = high


def test_what_lies_on_the_threshold_is_not_called_true() -> None:
    assert called_right([0.5, 0.5], [True, False], 0.5).tolist() == [False, True]
