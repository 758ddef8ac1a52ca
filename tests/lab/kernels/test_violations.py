from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hasse.lab.kernels.violations import blocked_violation, pairwise_violation
from hasse.models.kernels.cpu_violations import in_threads
from tests import oracle

SIZES = [(1, 1, 1), (5, 3, 4), (2, 33, 17), (4, 8, 16), (67, 70, 150)]
EMPTY = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("b", "c", "n"), [*SIZES, *EMPTY])
def test_values_are_those_of_the_formula(b: int, c: int, n: int) -> None:
    x, y = draw(b, n), draw(c, n, seed=1) - 0.2
    found = pairwise_violation(x, y).numpy()
    np.testing.assert_allclose(found, oracle.pairwise_violation(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("b", "c", "n"), [*SIZES, *EMPTY])
def test_gradients_are_those_of_the_formula(b: int, c: int, n: int) -> None:
    # Of few values, so that many coordinates tie.
    x, y = ((8 * draw(rows, n, seed=rows)).round() / 8 for rows in (b, c))
    weight = draw(b, c, seed=2) - 0.5
    exact = [p.double().requires_grad_() for p in (x, y)]
    plain = (exact[1][None] - exact[0][:, None]).clamp(min=0).square().sum(-1)
    expected = torch.autograd.grad((plain * weight).sum(), exact)
    points = [p.requires_grad_() for p in (x, y)]
    found = torch.autograd.grad((pairwise_violation(*points) * weight).sum(), points)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-5)


def test_gradients_and_points_of_any_strides_are_read() -> None:
    x, y = draw(5, 3).T.requires_grad_(), draw(7, 10, seed=1)[:, ::2].requires_grad_()
    weight = draw(7, 3, seed=2)
    found = torch.autograd.grad((pairwise_violation(x, y).T * weight).sum(), (x, y))
    plain = (y[None] - x[:, None]).clamp(min=0).square().sum(-1)
    expected = torch.autograd.grad((plain.T * weight).sum(), (x, y))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_nan_stays_nan_and_infinity_infinity() -> None:
    x, y = draw(5, 20), draw(4, 20, seed=1)
    x[1, 2] = torch.nan
    y[3, 4] = torch.inf
    found = pairwise_violation(x, y)
    assert found.isnan().all(1).tolist() == [False, True, False, False, False]
    assert found[0].isinf().tolist() == [False, False, False, True]


def test_a_violation_has_the_same_bits_whatever_is_compared_beside_it() -> None:
    x, y = draw(9, 150), draw(11, 150, seed=1)
    whole = pairwise_violation(x, y)
    for row in range(9):
        for column in range(11):
            alone = pairwise_violation(x[row : row + 1], y[column : column + 1])
            assert alone.item() == whole[row, column].item()


def test_threads_share_the_work_and_change_nothing() -> None:
    def all_of_it() -> list[Tensor]:
        x, y = draw(600, 150).requires_grad_(), draw(90, 150, seed=1).requires_grad_()
        out = pairwise_violation(x, y)
        return [out, *torch.autograd.grad((out * draw(600, 90, seed=2)).sum(), (x, y))]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = all_of_it()
        for threads in (2, 3):
            torch.set_num_threads(threads)
            for mine, theirs in zip(all_of_it(), alone, strict=True):
                assert torch.equal(mine, theirs)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 4, 90])
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 50])
def test_in_threads_covers_every_number_once(count: int, threads: int) -> None:
    ranges: list[tuple[int, int]] = []
    in_threads(lambda start, end: ranges.append((start, end)), count, 0, threads)
    assert sorted(at for start, end in ranges for at in range(start, end)) == list(range(count))
    assert len(ranges) <= max(1, threads)


def test_in_threads_raises_what_a_thread_raised() -> None:
    def work(start: int, _end: int) -> None:
        if start:
            raise MemoryError

    with pytest.raises(MemoryError):
        in_threads(work, 32, 0, threads=3)


def test_the_cube_never_exists_forward_or_backward() -> None:
    x, y = draw(150, 160).requires_grad_(), draw(170, 160, seed=1).requires_grad_()
    torch.autograd.backward(pairwise_violation(x, y).sum())  # compiles
    tracemalloc.start()
    try:
        torch.autograd.backward(pairwise_violation(x, y).sum())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    stored = 4 * (150 + 170) * 160
    # The points, their sums and the matrix are twice as much; the cube is eighty times.
    assert stored < peak < 5 * stored


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
def test_the_gradient_in_blocks_is_that_of_the_formula(
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


def test_the_cube_in_blocks_never_exists_forward_or_backward() -> None:
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
