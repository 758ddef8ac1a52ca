from __future__ import annotations

import pytest
import torch

from hasse.lab.kernels.violations import pairwise_violation
from tests import oracle
from tests.compilation import Signature, compiled

pytest.importorskip("triton")
from hasse.lab.kernels import gpu_violations
from hasse.lab.kernels.gpu_violations import ROWS, STEP, TILE, WIDTH, GpuViolation
from tests.device import DEVICE

SIZES = [(1, 1, 1), (5, 3, 4), (2, 33, 17), (TILE, 2 * TILE, STEP), (19, 20, 150)]
EMPTY = [(0, 3, 4), (2, 3, 0)]


@pytest.mark.parametrize(("b", "c", "n"), [*SIZES, *EMPTY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_values_and_gradients_are_those_of_the_blocks(
    b: int, c: int, n: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(0)
    # Of few values, so that many coordinates tie.
    x, y = (torch.randint(0, 4, (rows, n), generator=draw).to(dtype) / 8 for rows in (b, c))
    weight = torch.rand(b, c, generator=draw, dtype=dtype)
    found = []
    for violation, device in ((pairwise_violation, "cpu"), (GpuViolation.apply, DEVICE)):
        points = [p.to(device).detach().clone().requires_grad_() for p in (x, y)]
        out = violation(*points)
        slopes = torch.autograd.grad((out * weight.to(device)).sum(), points)
        found.append([out.cpu(), *(slope.cpu() for slope in slopes)])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(
        found[1][0].double(), torch.from_numpy(oracle.pairwise_violation(x.numpy(), y.numpy()))
    )


@pytest.mark.parametrize("programs", [1, 9])
def test_any_split_of_coordinates_among_programs_gives_the_same_result(
    monkeypatch: pytest.MonkeyPatch, programs: int
) -> None:
    monkeypatch.setattr(gpu_violations, "PROGRAMS", programs)
    draw = torch.Generator().manual_seed(0)
    x, y = (torch.rand(rows, 150, generator=draw) for rows in (19, 20))
    found = GpuViolation.apply(x.to(DEVICE), y.to(DEVICE))
    torch.testing.assert_close(found.cpu(), pairwise_violation(x, y))


def test_a_gradient_of_any_strides_is_read() -> None:
    x = torch.rand(3, 5, dtype=torch.double, device=DEVICE, requires_grad=True)
    y = torch.rand(4, 5, dtype=torch.double, device=DEVICE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, y: GpuViolation.apply(x, y).T.sum(), (x, y))


def test_nan_stays_nan() -> None:
    x, y = torch.rand(3, 5, device=DEVICE), torch.rand(4, 5, device=DEVICE)
    x[1, 2] = torch.nan
    assert GpuViolation.apply(x, y).isnan().all(1).tolist() == [False, True, False]


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu() -> None:
    points: Signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
    sizes = dict.fromkeys(("rows", "columns", "share"), "i32")
    summed = dict.fromkeys(("own", "others", "grad", "out"), "*fp32")
    strides = dict.fromkeys(
        ("own_count", "other_count", "dimension", "own_stride", "other_stride"), "i32"
    )
    kernels: dict[str, Signature] = {
        "_pairwise": {**points, **sizes, "tile": TILE, "step": STEP},
        "_gradient": {**summed, **strides, "side": -1, "rows": ROWS, "width": WIDTH, "step": STEP},
    }
    assert compiled("hasse.lab.kernels.gpu_violations", kernels) == list(kernels)
