from __future__ import annotations

import platform
import tracemalloc

import numpy as np
import pytest
import torch
from torch import Tensor

from models.kernels import cpu_violations
from models.kernels.cpu_violations import LANES, TILE, Laid, TiledViolation
from tests import oracle
from tests.processors import printed

SIZES = [(1, 1, 1), (5, 3, 4), (2, 33, 17), (TILE, 2 * TILE, LANES), (67, 70, 150)]
EMPTY = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("b", "c", "n"), [*SIZES, *EMPTY])
def test_values_are_those_of_the_formula(b: int, c: int, n: int) -> None:
    x, y = draw(b, n), draw(c, n, seed=1) - 0.2
    found = TiledViolation.apply(x, y).numpy()
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
    found = torch.autograd.grad((TiledViolation.apply(*points) * weight).sum(), points)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-5)


def test_a_gradient_and_points_of_any_strides_are_read() -> None:
    x, y = draw(5, 3).T.requires_grad_(), draw(7, 10, seed=1)[:, ::2].requires_grad_()
    weight = draw(7, 3, seed=2)
    found = torch.autograd.grad((TiledViolation.apply(x, y).T * weight).sum(), (x, y))
    plain = (y[None] - x[:, None]).clamp(min=0).square().sum(-1)
    expected = torch.autograd.grad((plain.T * weight).sum(), (x, y))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_not_a_number_stays_so() -> None:
    x, y = draw(5, 20), draw(4, 20, seed=1)
    x[1, 2] = torch.nan
    y[3, 4] = torch.inf
    found = TiledViolation.apply(x, y)
    assert found.isnan().all(1).tolist() == [False, True, False, False, False]
    assert found[0].isinf().tolist() == [False, False, False, True]


def test_a_violation_is_the_same_bits_whatever_is_compared_beside_it() -> None:
    x, y = draw(9, 150), draw(11, 150, seed=1)
    whole = TiledViolation.apply(x, y)
    for row in range(9):
        for column in range(11):
            alone = TiledViolation.apply(x[row : row + 1], y[column : column + 1])
            assert alone.item() == whole[row, column].item()


@pytest.mark.parametrize(("b", "c", "n"), [*SIZES, *EMPTY])
def test_points_that_are_laid_out_are_compared_to_the_same_bits(b: int, c: int, n: int) -> None:
    x, y = draw(b, n), draw(c, n, seed=1)
    expected = TiledViolation.apply(x, y)
    for _ in range(2):
        assert torch.equal(Laid(x).below(y), expected)
        assert torch.equal(Laid(y).above(x), expected)


def test_threads_share_the_work_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it() -> list[Tensor]:
        x, y = draw(70, 150).requires_grad_(), draw(90, 150, seed=1).requires_grad_()
        out = TiledViolation.apply(x, y)
        return [out, *torch.autograd.grad((out * draw(70, 90, seed=2)).sum(), (x, y))]

    alone = all_of_it()
    monkeypatch.setattr(cpu_violations, "_PER_THREAD", 1)
    ranges: list[tuple[int, int]] = []
    for name in ("_compare", "_add_up"):
        kernel = getattr(cpu_violations, name)

        def watched(*given, kernel=kernel):  # type: ignore[no-untyped-def]
            ranges.append(given[-2:])
            kernel(*given)

        monkeypatch.setattr(cpu_violations, name, watched)
    for threads in (2, 3, 50):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        ranges.clear()
        for mine, theirs in zip(all_of_it(), alone, strict=True):
            assert torch.equal(mine, theirs)
        assert len(ranges) == min(threads, -(-90 // TILE)) + min(threads, -(-150 // LANES))


def test_what_fails_in_a_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(start: int, _end: int) -> None:
        if start:
            raise MemoryError

    monkeypatch.setattr(cpu_violations, "_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.raises(MemoryError):
        cpu_violations._shared(work, 8 * TILE, TILE, 100)


def test_the_cube_never_exists_forward_or_backward() -> None:
    x, y = draw(150, 160).requires_grad_(), draw(170, 160, seed=1).requires_grad_()
    TiledViolation.apply(x, y).sum().backward()  # compiles
    tracemalloc.start()
    try:
        TiledViolation.apply(x, y).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    stored = 4 * (150 + 170) * 160
    assert stored < peak < 5 * stored, "the points, their sums and the matrix; not 16 MB"


SETS = {"x86_64": ["+avx2,+fma", ""]}  # the last one is what every processor can do


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS.get(platform.machine(), [""]))
def test_other_processors_compute_the_same_bits(features: str) -> None:
    code = """
import torch
from models.kernels.cpu_violations import TILE, TiledViolation
draw = torch.Generator().manual_seed(0)
x, y = (torch.rand(rows, 150, generator=draw, requires_grad=True) for rows in (9, 11))
out = TiledViolation.apply(x, y)
slopes = torch.autograd.grad((out * torch.rand(9, 11, generator=draw)).sum(), (x, y))
print(TILE, *(part.detach().view(torch.int32).tolist() for part in (out, *slopes)), sep="|")
"""
    here, other = (printed(code, given).split("|") for given in (None, features))
    assert other[0] == "2"
    assert other[1:] == here[1:]
