from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hasse.models.order import join, meet, precedes, violation
from tests import oracle

Point = NDArray[np.float64]

coordinates = st.floats(0, 10, width=32)


@st.composite
def points(draw: st.DrawFn, count: int) -> list[Point]:
    dimension = draw(st.integers(1, 9))
    return [
        draw(arrays(np.float32, dimension, elements=coordinates)).astype(np.float64)
        for _ in range(count)
    ]


@given(points(2))
def test_violation_equals_the_plain_formula(xy: list[Point]) -> None:
    x, y = xy
    assert violation(x, y).item() == pytest.approx(oracle.violation(x, y).item())


@given(points(2))
def test_violation_is_zero_exactly_when_x_precedes_y(xy: list[Point]) -> None:
    x, y = xy
    assert (violation(x, y).item() == 0) == bool(precedes(x, y))


@given(points(1))
def test_everything_precedes_itself_and_the_origin(xs: list[Point]) -> None:
    (x,) = xs
    assert precedes(x, x)
    assert precedes(x, np.zeros_like(x))


@given(points(2))
def test_both_directions_add_up_to_the_squared_distance(xy: list[Point]) -> None:
    x, y = xy
    both = violation(x, y) + violation(y, x)
    assert both.item() == pytest.approx(np.square(x - y).sum())


@given(points(3))
def test_precedes_is_transitive(xyz: list[Point]) -> None:
    x, y, z = xyz
    # Random triples are rarely ordered, so order them.
    y, z = meet(x, y), meet(meet(x, y), z)
    assert precedes(x, y)
    assert precedes(y, z)
    assert precedes(x, z)


@given(points(3))
def test_a_join_is_violated_at_least_as_much_as_each_part(xyz: list[Point]) -> None:
    x, y, z = xyz
    assert violation(x, join(y, z)) >= np.maximum(violation(x, y), violation(x, z))


@given(points(3))
def test_a_more_specific_point_violates_no_more(xyw: list[Point]) -> None:
    x, y, w = xyw
    assert violation(join(x, w), y) <= np.minimum(violation(x, y), violation(w, y))


@given(points(2))
def test_join_and_meet_are_the_bounds_of_the_order(xy: list[Point]) -> None:
    x, y = xy
    assert precedes(join(x, y), x)
    assert precedes(join(x, y), y)
    assert precedes(x, meet(x, y))
    assert precedes(y, meet(x, y))


def test_tolerance_overlooks_a_small_shortfall() -> None:
    x, y = np.array([0.5, 0.2]), np.array([0.6, 0.0])
    assert not precedes(x, y)
    assert precedes(x, y, tolerance=0.11)


def test_violation_of_rows_has_the_bits_of_each_row_alone() -> None:
    random = np.random.default_rng(0)
    x, y = random.random((2, 9, 150), np.float32)
    together = violation(x, y)
    assert together.shape == (9,)
    for row in range(9):
        assert violation(x[row], y[row]) == together[row]
