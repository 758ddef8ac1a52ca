from __future__ import annotations

import pytest
import torch

from hasse.lab.encoders.mixed_precision import (
    low_precision_matmul,
    supports_bfloat16,
)


@pytest.mark.parametrize("shape", [(4, 5), (4, 3, 5)])
def test_the_gradient_is_the_derivative(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.double, requires_grad=True)
    weight = torch.randn(6, 5, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(low_precision_matmul(x, weight, torch.double), x @ weight.T)
    assert torch.autograd.gradcheck(
        lambda x, weight: low_precision_matmul(x, weight, torch.double), (x, weight)
    )


def test_matmul_rounds_all_products_and_returns_float32() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(40, 50, requires_grad=True), torch.randn(60, 50, requires_grad=True)
    grad = torch.randn(40, 60)
    out = low_precision_matmul(x, weight, torch.bfloat16)
    of_x, of_weight = torch.autograd.grad(out, (x, weight), grad)
    exact = (x @ weight.T, grad @ weight, grad.T @ x)
    for found, expected in zip((out, of_x, of_weight), exact, strict=True):
        assert found.dtype == torch.float32
        assert not torch.equal(found, expected)
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.1)


def test_matmul_without_need_of_a_gradient_gives_none() -> None:
    x, weight = torch.randn(4, 5), torch.randn(6, 5, requires_grad=True)
    low_precision_matmul(x, weight, torch.bfloat16).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is None
    assert weight.grad is not None


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        (set(), False),
        ({"_is_avx512_supported", "_is_vnni_supported"}, False),
        ({"_is_avx512_bf16_supported"}, True),
        ({"_is_amx_tile_supported"}, True),
    ],
)
def test_supports_bfloat16_on_x86_by_its_features(
    flags: set[str], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in vars(torch.cpu):
        if name.startswith("_is_"):
            monkeypatch.setattr(torch.cpu, name, lambda name=name: name in flags)
    assert supports_bfloat16("cpu", "x86_64") == has


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("has", [True, False])
def test_supports_bfloat16_on_arm_by_its_features(
    machine: str, there: bool, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: there)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert supports_bfloat16("cpu", machine) == (there and has)


@pytest.mark.parametrize(("capability", "has"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_supports_bfloat16_on_nvidia_cards_since_ampere(
    capability: tuple[int, int], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = {"cuda:1": capability}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: of[str(device)])
    assert supports_bfloat16("cuda:1") == has
