"""A gated recurrent unit for captions of different lengths, fast in training.

The equations are those of `torch.nn.GRU` (Cho et al., 2014): with x a word and h the state,

    r = sigmoid(Wr x + br + Ur h + cr)            reset
    z = sigmoid(Wz x + bz + Uz h + cz)            update
    n = tanh(Wn x + bn + r * (Un h + cn))         new
    h' = (1 - z) * n + z * h

The computation differs. The captions of a batch are sorted by length, so step t computes only the
captions with a t-th word, and nothing for padding. The gradient is written by hand: that of the
recurrent weights is one matrix product over all steps. Autograd makes one product per step, which
takes a third of its time. The products may run in bfloat16 (with float32 sums), two to four times
faster on processors that have it; the state stays float32. Inference on a CPU uses
`hasse.models.kernels.cpu_gru`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hasse.lab.encoders.mixed_precision import low_precision_matmul

_through_sigmoid: Any = torch.ops.aten.sigmoid_backward
_through_tanh: Any = torch.ops.aten.tanh_backward


class GRU(nn.Module):
    """Reads sequences of vectors and returns states.

    Initialised as the reference of Vendrov et al.: input weights uniform in +-0.1, each gate's
    recurrent weights orthogonal, biases zero.
    """

    def __init__(self, inputs: int, states: int) -> None:
        super().__init__()
        # Rows are those of r, z and n, as in torch.nn.GRU.
        self.input_weight = nn.Parameter(torch.empty(3 * states, inputs).uniform_(-0.1, 0.1))
        self.recurrent_weight = nn.Parameter(torch.empty(3 * states, states))
        for gate in self.recurrent_weight.data.chunk(3):
            nn.init.orthogonal_(gate)
        self.input_bias = nn.Parameter(torch.zeros(3 * states))
        self.recurrent_bias = nn.Parameter(torch.zeros(3 * states))

    def forward(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return each sequence's state after its last vector.

        Args:
            vectors: (B, T, inputs); those after a sequence's end are not read.
            lengths: (B,) int64, from 1 to T, always on the CPU.
            matmul_dtype: the type of matrix products.

        Returns:
            (B, states)
        """
        states, order, alive = self._states(vectors, lengths, matmul_dtype)
        starts = torch.tensor([0, *alive]).cumsum(0)
        rows = starts[lengths - 1] + torch.argsort(order)
        return states[rows.to(states.device)]

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = torch.float32,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the maximum of each sequence's states in each coordinate.

        It is that of absolute values, unless `signed`. Other arguments as in `forward`.

        Returns:
            (B, states)
        """
        states, order, alive = self._states(vectors, lengths, matmul_dtype)
        values = states if signed else states.abs()
        rows = torch.cat([torch.arange(count) for count in alive])
        pooled = values.new_zeros(alive[0], values.shape[1]).scatter_reduce(
            0, rows.to(values.device)[:, None].expand_as(values), values, "amax", include_self=False
        )
        return pooled[torch.argsort(order).to(values.device)]

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Permute the states in place: new state i is old state order[i]."""
        size = len(order)
        gates = torch.cat([order + gate * size for gate in range(3)])
        for weight in (self.input_weight, self.input_bias, self.recurrent_bias):
            weight.copy_(weight[gates])
        self.recurrent_weight.copy_(self.recurrent_weight[gates][:, order])

    def _states(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Return all states in order of time, without padding, the longest sequences first.

        Returns:
            states (sum of lengths, states), the order of the sequences (B,), on the CPU, and the
            number of sequences with a t-th vector, for each t.
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        alive = (lengths[None] > torch.arange(int(lengths.max()))[:, None]).sum(1).tolist()
        # One gather, with one gradient, instead of one for each step.
        rows = torch.cat([order[:count] * vectors.shape[1] + t for t, count in enumerate(alive)])
        words = vectors.flatten(0, 1).index_select(0, rows.to(vectors.device))
        # The biases of r and z are added here; r scales that of the new state in `_Recurrence`.
        size = self.recurrent_weight.shape[1]
        outer = self.input_bias + pad(self.recurrent_bias[: 2 * size], (0, size))
        states: Tensor = _Recurrence.apply(
            low_precision_matmul(words, self.input_weight, matmul_dtype) + outer,
            self.recurrent_weight,
            self.recurrent_bias[2 * size :],
            alive,
            matmul_dtype,
        )
        return states, order, alive


class _Recurrence(torch.autograd.Function):
    """The states of all steps, (sum of lengths, N), from the input terms of the gates."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (sum of lengths, 3 N), in order of time, with all biases except `bias`
        weight: Tensor,  # (3 N, N)
        bias: Tensor,  # (N,), cn
        alive: list[int],  # how many sequences have a t-th word; never grows
        matmul_dtype: torch.dtype,
    ) -> Tensor:
        states = weight.shape[1]
        state = gates.new_zeros(alive[0], states)
        weight_low = weight.to(matmul_dtype)
        previous = gates.new_empty(len(gates), states, dtype=matmul_dtype)
        opened_gates = gates.new_empty(len(gates), 2 * states)  # r and z
        # n, Un h + cn, h'
        new, inner, out = (gates.new_empty(len(gates), states) for _ in range(3))
        start = 0
        for count in alive:
            step = slice(start, start + count)
            low = previous[step].copy_(state[:count])
            recurrent = (low @ weight_low.T).to(gates.dtype)  # (count, 3 N)
            (input_rz, input_n), (recurrent_rz, recurrent_n) = (
                torch.split(part, [2 * states, states], 1) for part in (gates[step], recurrent)
            )
            torch.sigmoid(input_rz + recurrent_rz, out=opened_gates[step])
            r, z = opened_gates[step].chunk(2, 1)
            torch.add(recurrent_n, bias, out=inner[step])
            torch.tanh(torch.addcmul(input_n, r, inner[step]), out=new[step])
            state = torch.lerp(new[step], state[:count], z, out=out[step])
            start += count
        ctx.save_for_backward(previous, opened_gates, new, inner, weight_low)
        ctx.alive = alive
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        previous, opened_gates, new, inner, weight = ctx.saved_tensors
        (grad_out,) = grads
        states = weight.shape[1]
        grad_state = grad_out.new_zeros(ctx.alive[0], states)
        grad_gates = grad_state.new_empty(len(previous), 3 * states)
        grad_recurrent = torch.empty_like(grad_gates, dtype=weight.dtype)
        grad_bias = grad_state.new_zeros(states)
        start = len(previous)
        for count in reversed(ctx.alive):
            step = slice(start - count, start)
            n, (r, z) = new[step], opened_gates[step].chunk(2, 1)
            grad_next = grad_state[:count].add_(grad_out[step])
            grad_r, grad_z, grad_n = grad_gates[step].chunk(3, 1)
            _through_tanh(torch.addcmul(grad_next, grad_next, z, value=-1), n, grad_input=grad_n)
            _through_sigmoid(grad_n * inner[step], r, grad_input=grad_r)
            # `previous` holds the state before this step, in the type of the product.
            change = previous[step].to(grad_next.dtype) - n
            _through_sigmoid(change.mul_(grad_next), z, grad_input=grad_z)
            low, grad_inner = grad_recurrent[step], grad_n * r
            low[:, : 2 * states] = grad_gates[step, : 2 * states]
            low[:, 2 * states :] = grad_inner
            grad_bias += grad_inner.sum(0)
            torch.addcmul((low @ weight).to(grad_next.dtype), grad_next, z, out=grad_next)
            start -= count
        grad_weight = (grad_recurrent.T @ previous).to(grad_state.dtype)
        return grad_gates, grad_weight, grad_bias, None, None
