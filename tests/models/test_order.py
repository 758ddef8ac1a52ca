from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hasse.models.order import (
    blocked_violation,
    join,
    meet,
    pairwise_violation,
    precedes,
    violation,
)
from tests import oracle

coordinates = st.floats(0, 10, width=32)


@st.composite
def points(draw: st.DrawFn, count: int) -> list[Tensor]:
    dimension = draw(st.integers(1, 9))
    return [
        torch.from_numpy(draw(arrays(np.float32, dimension, elements=coordinates))).double()
        for _ in range(count)
    ]


@given(points(2))
def test_violation_equals_the_plain_formula(xy: list[Tensor]) -> None:
    x, y = xy
    assert violation(x, y).item() == pytest.approx(oracle.violation(x, y).item())


@given(points(2))
def test_violation_is_zero_exactly_when_x_precedes_y(xy: list[Tensor]) -> None:
    x, y = xy
    assert (violation(x, y).item() == 0) == bool(precedes(x, y))


@given(points(1))
def test_everything_precedes_itself_and_the_origin(xs: list[Tensor]) -> None:
    (x,) = xs
    assert precedes(x, x)
    assert precedes(x, torch.zeros_like(x))


@given(points(2))
def test_both_directions_add_up_to_the_squared_distance(xy: list[Tensor]) -> None:
    x, y = xy
    both = violation(x, y) + violation(y, x)
    assert both.item() == pytest.approx((x - y).square().sum().item())


@given(points(3))
def test_precedes_is_transitive(xyz: list[Tensor]) -> None:
    x, y, z = xyz
    # Random triples are rarely ordered, so order them.
    y, z = meet(x, y), meet(meet(x, y), z)
    assert precedes(x, y)
    assert precedes(y, z)
    assert precedes(x, z)


@given(points(3))
def test_a_join_is_violated_at_least_as_much_as_each_part(xyz: list[Tensor]) -> None:
    x, y, z = xyz
    assert violation(x, join(y, z)) >= torch.maximum(violation(x, y), violation(x, z))


@given(points(3))
def test_a_more_specific_point_violates_no_more(xyw: list[Tensor]) -> None:
    x, y, w = xyw
    assert violation(join(x, w), y) <= torch.minimum(violation(x, y), violation(w, y))


@given(points(2))
def test_join_and_meet_are_the_bounds_of_the_order(xy: list[Tensor]) -> None:
    x, y = xy
    assert precedes(join(x, y), x)
    assert precedes(join(x, y), y)
    assert precedes(x, meet(x, y))
    assert precedes(y, meet(x, y))


def test_tolerance_overlooks_a_small_shortfall() -> None:
    x, y = torch.tensor([0.5, 0.2]), torch.tensor([0.6, 0.0])
    assert not precedes(x, y)
    assert precedes(x, y, tolerance=0.11)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("b", "c", "n"), [(1, 1, 1), (5, 3, 4), (2, 33, 17), (0, 3, 4), (2, 0, 4), (2, 3, 0)]
)
def test_pairwise_equals_the_plain_cube_in_blocks_of_any_size(
    block: int, b: int, c: int, n: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(rows, n, generator=generator, dtype=torch.double) for rows in (b, c))
    found = blocked_violation(x, y, block)
    assert found.dtype == torch.double
    np.testing.assert_allclose(found.numpy(), oracle.pairwise_violation(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_the_pairwise_gradient_is_that_of_the_formula(
    block: int,
) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(4, 6, generator=generator, dtype=torch.double, requires_grad=True)
    y = torch.rand(3, 6, generator=generator, dtype=torch.double, requires_grad=True)
    weight = torch.rand(4, 3, generator=generator, dtype=torch.double)
    plain = ((y[None] - x[:, None]).clamp(min=0).square().sum(-1) * weight).sum()
    expected = torch.autograd.grad(plain, (x, y))
    ours = torch.autograd.grad((blocked_violation(x, y, block) * weight).sum(), (x, y))
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_cube_never_exists_forward_or_backward() -> None:
    largest = 0

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            for out in result if isinstance(result, tuple) else (result,):
                largest = max(largest, out.untyped_storage().nbytes() // out.element_size())
            return result

    x = torch.rand(50, 64, dtype=torch.double, requires_grad=True)
    y = torch.rand(70, 64, dtype=torch.double, requires_grad=True)
    with Watch():  # type: ignore[no-untyped-call]
        torch.autograd.grad(blocked_violation(x, y, 4096).sum(), (x, y))
    assert 0 < largest <= y.numel(), "nothing is larger than the points themselves"


@pytest.mark.parametrize(("x", "y"), [((2, 3), (2, 4)), ((3,), (2, 3)), ((2, 3), (1, 2, 3))])
def test_points_that_are_not_two_matrices_of_one_dimension_are_refused(
    x: tuple[int, ...], y: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="one dimension"):
        pairwise_violation(torch.rand(x), torch.rand(y))
