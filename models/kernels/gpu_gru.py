"""The recurrence of `models.encoders.units.gru` on a GPU: one matrix product and one kernel a step.

All captions of a batch take all steps, since there the number of steps counts and not that of
rows; one that has ended keeps its state. Nothing depends on the lengths but what the kernels
read, so that a CUDA graph can launch the steps back to back.

The kernels are Triton's, so this module is imported where captions are on a GPU only; see
`hasse.models.kernels.gpu_violations` for how they are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

jit = cast(Callable[[Callable[..., Any]], Any], triton.jit)

WIDTH = 256  # coordinates of a state that one program works on


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Let products of float32, of all threads, round their factors to TF32, as cuDNN does too."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class GpuGRU(torch.autograd.Function):
    """The states after every word: (T, B, K) words, the weights of `GRU` -> (T, B, N).

    `alive` (T, B) of bool: the captions that have a t-th word. Matrices are multiplied in
    `dtype`. States are float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        input_bias: Tensor,
        recurrent_bias: Tensor,
        alive: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        steps, batch, _ = words.shape
        size = recurrent_weight.shape[1]
        words = words.to(dtype).contiguous()
        input_weight, recurrent_weight = input_weight.to(dtype), recurrent_weight.to(dtype)
        gates = words @ input_weight.T  # (T, B, 3 N)
        states = torch.empty(steps + 1, batch, size, device=words.device)
        states[0] = 0
        # As the next product reads them.
        low = states if dtype == torch.float32 else torch.empty_like(states, dtype=dtype)
        low[0] = 0
        kept = torch.empty(steps, batch, 4, size, device=words.device)  # r, z, n and Un h + cn
        recurrent = torch.empty_like(gates[0])
        for step in range(steps):
            torch.mm(low[step], recurrent_weight.T, out=recurrent)
            _forward[(batch, triton.cdiv(size, WIDTH))](
                gates[step],
                recurrent,
                input_bias,
                recurrent_bias,
                alive[step],
                states[step],
                states[step + 1],
                low[step + 1],
                kept[step],
                size,
                width=WIDTH,
                num_warps=2,
                enable_fp_fusion=True,
            )
        ctx.save_for_backward(words, input_weight, recurrent_weight, alive, states, low, kept)
        return states[1:]

    @staticmethod
    @tensor_cores()
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, None, None]:
        words, input_weight, recurrent_weight, alive, states, low, kept = ctx.saved_tensors
        grad_states = grads[0].contiguous()
        steps, batch, size = grad_states.shape
        grad_gates = words.new_empty(steps, batch, 3 * size)
        grad_recurrent = torch.empty_like(grad_gates)
        # What reaches a state from the step after it, past the product and through it.
        past, through = torch.zeros_like(states[0]), torch.zeros_like(low[0])
        for step in reversed(range(steps)):
            _backward[(batch, triton.cdiv(size, WIDTH))](
                grad_states[step],
                past,
                through,
                kept[step],
                states[step],
                alive[step],
                grad_gates[step],
                grad_recurrent[step],
                size,
                width=WIDTH,
                num_warps=2,
                enable_fp_fusion=True,
            )
            torch.mm(grad_recurrent[step], recurrent_weight, out=through)
        grad_gates, grad_recurrent = grad_gates.flatten(0, 1), grad_recurrent.flatten(0, 1)
        return (
            (grad_gates @ input_weight).float().view_as(words),
            (grad_gates.T @ words.flatten(0, 1)).float(),
            (grad_recurrent.T @ low[:-1].flatten(0, 1)).float(),
            grad_gates.sum(0, dtype=torch.float32),
            grad_recurrent.sum(0, dtype=torch.float32),
            None,
            None,
        )


@jit
def _gate(tensor, row, gate, at, there, size):  # type: ignore[no-untyped-def]
    # Of r, z and n, a row of (B, 3 N) holds one after the other, and a bias too (row 0).
    return tl.load(tensor + (3 * row + gate) * size + at, mask=there, other=0.0).to(tl.float32)


@jit
def _forward(  # type: ignore[no-untyped-def]
    gates,
    recurrent,
    input_bias,
    recurrent_bias,
    alive,
    before,
    after,
    after_low,
    kept,
    size,
    width: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.program_id(1) * width + tl.arange(0, width)
    there = at < size
    word_r = _gate(gates, row, 0, at, there, size) + _gate(input_bias, 0, 0, at, there, size)
    word_z = _gate(gates, row, 1, at, there, size) + _gate(input_bias, 0, 1, at, there, size)
    word_n = _gate(gates, row, 2, at, there, size) + _gate(input_bias, 0, 2, at, there, size)
    r = _gate(recurrent, row, 0, at, there, size) + _gate(recurrent_bias, 0, 0, at, there, size)
    z = _gate(recurrent, row, 1, at, there, size) + _gate(recurrent_bias, 0, 1, at, there, size)
    inner = _gate(recurrent, row, 2, at, there, size)
    inner += _gate(recurrent_bias, 0, 2, at, there, size)
    r, z = tl.sigmoid(word_r + r), tl.sigmoid(word_z + z)
    n = 2 * tl.sigmoid(2 * (word_n + r * inner)) - 1  # the tangent
    place = row * size + at
    state = tl.load(before + place, mask=there, other=0.0)
    is_alive = tl.load(alive + row) != 0
    state = tl.where(is_alive, n + z * (state - n), state)
    tl.store(after + place, state, mask=there)
    tl.store(after_low + place, state.to(after_low.dtype.element_ty), mask=there)
    kept += 4 * row * size + at
    tl.store(kept, r, mask=there)
    tl.store(kept + size, z, mask=there)
    tl.store(kept + 2 * size, n, mask=there)
    tl.store(kept + 3 * size, inner, mask=there)


@jit
def _backward(  # type: ignore[no-untyped-def]
    grad_after,
    past,
    through,
    kept,
    before,
    alive,
    grad_gates,
    grad_recurrent,
    size,
    width: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.program_id(1) * width + tl.arange(0, width)
    there = at < size
    place = row * size + at
    up = tl.load(grad_after + place, mask=there, other=0.0)
    up += tl.load(past + place, mask=there, other=0.0)
    up += tl.load(through + place, mask=there, other=0.0).to(tl.float32)
    kept += 4 * row * size + at
    r = tl.load(kept, mask=there, other=0.0)
    z = tl.load(kept + size, mask=there, other=0.0)
    n = tl.load(kept + 2 * size, mask=there, other=0.0)
    inner = tl.load(kept + 3 * size, mask=there, other=0.0)
    state = tl.load(before + place, mask=there, other=0.0)
    is_alive = tl.load(alive + row) != 0
    grad_n = tl.where(is_alive, up * (1 - z) * (1 - n * n), 0.0)
    grad_r = tl.where(is_alive, grad_n * inner * r * (1 - r), 0.0)
    grad_z = tl.where(is_alive, up * (state - n) * z * (1 - z), 0.0)
    tl.store(past + place, tl.where(is_alive, up * z, up), mask=there)
    low = grad_gates.dtype.element_ty
    place += 2 * row * size  # in rows of three gates
    tl.store(grad_gates + place, grad_r.to(low), mask=there)
    tl.store(grad_gates + place + size, grad_z.to(low), mask=there)
    tl.store(grad_gates + place + 2 * size, grad_n.to(low), mask=there)
    tl.store(grad_recurrent + place, grad_r.to(low), mask=there)
    tl.store(grad_recurrent + place + size, grad_z.to(low), mask=there)
    tl.store(grad_recurrent + place + 2 * size, (grad_n * r).to(low), mask=there)
