from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hasse.index.errors import BadQueryError
from hasse.index.search.query import Query, checked_queries
from hasse.index.types import KINDS
from hasse.models.score import Score
from tests.index.samples import model, small_index


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kind": "sound"}, "sound"),
        ({"mode": "quick"}, "quick"),
        ({"k": 0}, "k is 0"),
        ({"k": 100_001}, "k is 100001"),
        ({"candidates": 0}, "candidates is 0"),
        ({"max_violation": -1.0}, "max_violation is -1.0"),
        ({"max_violation": float("nan")}, "max_violation is nan"),
    ],
)
def test_query_refuses_parameters_out_of_range_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(BadQueryError, match=named):
        Query(**{"kind": "image", "k": 5, **wrong})


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 1e300])
def test_query_point_with_an_impossible_coordinate_is_refused(value: float) -> None:
    with pytest.raises(BadQueryError, match="encode it again"):
        checked_queries(np.array([[0.5, value]]), model(2))


@pytest.mark.parametrize("score", ["order", "cosine"])
def test_query_point_longer_than_any_stored_point_is_refused(score: Score) -> None:
    with pytest.raises(BadQueryError, match=r"the length 3e\+38, and points are no longer than 1e"):
        checked_queries(np.array([[0.5, 0.5], [0, 3e38]]), model(2, score))
    with pytest.raises(BadQueryError, match=r"the length 1\.02e\+18"):
        checked_queries(np.full((1, 4), 0.51e18, np.float32), model(4, score))
    assert len(checked_queries(np.full((1, 4), 0.5e18, np.float32), model(4, score))) == 1


def test_violations_with_the_longest_query_point_are_finite(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        for kind in KINDS:
            found = index.search(Query(kind, 3), np.full(16, 0.2e18))
            assert np.isfinite(found.violations).all()
            with pytest.raises(BadQueryError, match="no longer than"):
                index.search(Query(kind, 3), np.full(16, 3e38))


def test_query_point_of_another_dimension_is_refused_with_both_dimensions() -> None:
    with pytest.raises(BadQueryError, match=r"\(3,\).* 2 coordinates.*'sample'"):
        checked_queries(np.zeros((1, 3)), model(2))


def test_query_point_for_cosine_may_be_negative() -> None:
    assert checked_queries([[-0.5, 0.5]], model(2, "cosine")).dtype == np.float32
