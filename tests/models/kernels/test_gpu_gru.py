from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from hasse.models.encoders.units.gru import GRU
from tests.compilation import Signature, compiled

pytest.importorskip("triton")
from hasse.models.kernels.gpu_gru import WIDTH, GpuGRU
from tests.device import DEVICE

LENGTHS = torch.tensor([4, 9, 1, 4, 2, 9])


@pytest.fixture
def drawn() -> tuple[GRU, Tensor]:
    torch.manual_seed(3)
    gru = GRU(5, 7)
    nn.init.normal_(gru.input_bias)
    nn.init.normal_(gru.recurrent_bias)
    return gru, torch.randn(6, 9, 5)


def fused(gru: GRU, vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Return all states, (B, T, N), the last kept past the end."""
    alive = torch.arange(vectors.shape[1])[:, None] < LENGTHS
    weights = (gru.input_weight, gru.recurrent_weight, gru.input_bias, gru.recurrent_bias)
    states: Tensor = GpuGRU.apply(vectors.transpose(0, 1), *weights, alive.to(DEVICE), dtype)
    return states.transpose(0, 1)


# A GPU multiplies float32 as TF32, of 10 bits; without one the interpreter does so exactly.
EXACT = 1e-5 if DEVICE == "cpu" else 1e-2


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, EXACT), (torch.bfloat16, 5e-2)])
def test_states_and_gradients_are_those_of_a_cpu(
    drawn: tuple[GRU, Tensor], dtype: torch.dtype, tolerance: float
) -> None:
    gru, vectors = drawn
    past = torch.arange(vectors.shape[1])[None] >= LENGTHS[:, None]  # (B, T)
    weight = torch.randn(6, 7)
    found: list[list[Tensor]] = []
    for device in ("cpu", DEVICE):
        gru, words = gru.to(device), vectors.to(device).detach().requires_grad_()
        if not found:
            pooled, last = gru.max_pool(words, LENGTHS, dtype), gru(words, LENGTHS, dtype)
        else:
            states = fused(gru, words, dtype)
            seen = states.abs().masked_fill(past[..., None].to(device), 0)
            pooled, last = seen.amax(1), states[:, -1]
        total = (pooled * weight.to(device)).sum() + last.square().sum()
        slopes = torch.autograd.grad(total, (words, *gru.parameters()))
        found.append([part.detach().cpu() for part in (pooled, last, *slopes)])
    for expected, got in zip(*found, strict=True):
        assert got.dtype == torch.float32
        scale = float(expected.abs().max())
        torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * scale)


def test_words_past_the_end_are_not_read(drawn: tuple[GRU, Tensor]) -> None:
    gru, vectors = drawn
    for row, length in zip(vectors, LENGTHS.tolist(), strict=True):
        row[length:] = torch.nan
    assert fused(gru.to(DEVICE), vectors.to(DEVICE), torch.float32).isfinite().all()


def test_only_training_rounds_to_tf32(
    drawn: tuple[GRU, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    multiply = torch.mm

    def watched(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return multiply(a, b, out=out)

    monkeypatch.setattr(torch, "mm", watched)
    if DEVICE == "cpu":
        monkeypatch.setattr(torch.cuda, "device", nullcontext)
    gru, vectors = drawn[0].to(DEVICE), drawn[1].to(DEVICE)
    states, _ = gru._states_on_gpu(vectors, LENGTHS, torch.float32)
    states.sum().backward()  # type: ignore[no-untyped-call]
    assert set(seen) == {"high"}
    with torch.no_grad():
        gru._states_on_gpu(vectors, LENGTHS, torch.float32)
    assert set(seen) == {"high", "highest"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["*fp32", "*bf16"])
def test_the_kernels_compile_for_a_gpu(dtype: str) -> None:
    floats = "*fp32"
    last: Signature = {"size": "i32", "width": WIDTH}
    forward: Signature = {
        **dict.fromkeys(("gates", "recurrent"), dtype),
        **dict.fromkeys(("input_bias", "recurrent_bias"), floats),
        "alive": "*i1",
        **dict.fromkeys(("before", "after"), floats),
        "after_low": dtype,
        "kept": floats,
        **last,
    }
    backward: Signature = {
        **dict.fromkeys(("grad_after", "past"), floats),
        "through": dtype,
        **dict.fromkeys(("kept", "before"), floats),
        "alive": "*i1",
        **dict.fromkeys(("grad_gates", "grad_recurrent"), dtype),
        **last,
    }
    kernels: dict[str, Signature] = {"_forward": forward, "_backward": backward}
    assert compiled("hasse.models.kernels.gpu_gru", kernels) == list(kernels)
