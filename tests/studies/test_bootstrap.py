from __future__ import annotations

import numpy as np
import pytest

from hasse.lab.evaluation.significance import SAMPLES, draws
from hasse.studies.bootstrap import interval


def test_the_interval_is_that_of_the_normal_law_where_that_holds() -> None:
    values = np.random.default_rng(1).random(2000) < 0.8
    low, high = interval(values)
    half = 1.96 * values.std() / 2000**0.5
    assert low == pytest.approx(values.mean() - half, abs=0.003)
    assert high == pytest.approx(values.mean() + half, abs=0.003)


def test_where_nothing_varies_there_is_no_doubt() -> None:
    assert interval([True] * 5) == (1, 1)
    assert interval([0.25]) == (0.25, 0.25)


def test_it_is_the_same_every_time() -> None:
    values = np.random.default_rng(0).random(50)
    assert interval(values) == interval(values)


def test_draws_are_of_the_size_of_the_sample_and_repeat() -> None:
    first, again = (np.stack(list(draws(12, seed=4))) for _ in range(2))
    assert first.shape == (SAMPLES, 12)
    assert (first.sum(1) == 12).all()
    np.testing.assert_array_equal(first, again)
    assert first.mean(0) == pytest.approx(np.ones(12), abs=0.15)
