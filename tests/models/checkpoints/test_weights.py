"""What becomes of weights that are stored in fewer bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hasse.lab.tensors import arrays, tensors
from hasse.models.checkpoints.weights import SCALE, WeightDtype, dequantize, quantize


def kept(weights: dict[str, Tensor], dtype: WeightDtype) -> dict[str, Tensor]:
    """Return weights as they come back from a file."""
    return tensors(dequantize(quantize(arrays(weights), dtype)))


DTYPES: list[WeightDtype] = ["float32", "float16", "int8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_and_counters_stay_as_they_are(dtype: WeightDtype) -> None:
    weights = {"bias": torch.randn(5), "batches": torch.tensor(7), "grid": torch.ones(2, 2).int()}
    found = kept(weights, dtype)
    assert found.keys() == weights.keys()
    for key, value in weights.items():
        torch.testing.assert_close(found[key], value, rtol=0, atol=0)  # and of the same type


@given(seed=st.integers(0, 10_000), spread=st.sampled_from([1e-9, 1e-5, 1.0, 300.0]))
def test_bytes_are_off_by_half_a_scale_at_most_and_only_once(seed: int, spread: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    matrix = torch.randn(6, 3, 2, 2, generator=draw) * spread
    matrix[0] = 0
    matrix[1] = 127.0  # a power of two exactly
    stored = tensors(quantize(arrays({"w": matrix}), "int8"))
    assert stored["w"].dtype == torch.int8
    scale = stored["w" + SCALE].view(-1, 1, 1, 1)
    assert scale[1].item() == 1
    once = kept({"w": matrix}, "int8")["w"]
    assert ((once - matrix).abs() <= scale / 2).all()
    largest = matrix.abs().amax((1, 2, 3), keepdim=True)
    assert (scale <= torch.clamp(2 * largest / 127, min=2.0**-24)).all()
    for dtype in DTYPES:
        again = kept({"w": once}, dtype)["w"]
        torch.testing.assert_close(again, once, rtol=0, atol=0)


def test_a_weight_may_be_called_scale() -> None:
    weights = {"norm.scale": torch.randn(4), "map": torch.randn(2, 4)}
    found = kept(weights, "int8")
    assert found.keys() == weights.keys()
    assert torch.equal(found["norm.scale"], weights["norm.scale"])
