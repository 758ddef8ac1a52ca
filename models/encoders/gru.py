"""A gated recurrent unit that reads ragged captions, and learns fast.

The equations are those of `torch.nn.GRU` (Cho et al., 2014): with x a word and h the state,

    r = sigmoid(Wr x + br + Ur h + cr)            reset
    z = sigmoid(Wz x + bz + Uz h + cz)            update
    n = tanh(Wn x + bn + r * (Un h + cn))         new
    h' = (1 - z) * n + z * h

What differs is how it runs. The captions of a batch are sorted by length, so that step t works
on the captions that have a t-th word, and nothing is computed for padding. The gradient is
written out: the recurrent weights get theirs from one matrix product over all steps instead of
one per step, which is where autograd's way spends a third of its time. The products may run in
bfloat16 (with float32 sums), which doubles to quadruples their speed where the processor has it;
the state itself stays float32. Captions that are encoded on a CPU for search take the steps of
`hasse.models.kernels.cpu_gru`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hasse.models.encoders.mixed_precision import low_precision_matmul

_through_sigmoid: Any = torch.ops.aten.sigmoid_backward
_through_tanh: Any = torch.ops.aten.tanh_backward


class GRU(nn.Module):
    """Read vectors one after the other and return the states.

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
            vectors: (B, T, inputs); those past a sequence's length are not read.
            lengths: (B,) int64, from 1 to T, on the CPU, wherever the vectors are.
            matmul_dtype: the type in which matrices are multiplied.

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
        """Return the largest of each sequence's states in each coordinate.

        Absolute values are taken first, unless `signed`. Other arguments as of `forward`.

        Returns:
            (B, states)
        """
        states, order, alive = self._states(vectors, lengths, matmul_dtype)
        seen = states if signed else states.abs()
        rows = torch.cat([torch.arange(count) for count in alive])
        pooled = seen.new_zeros(alive[0], seen.shape[1]).scatter_reduce(
            0, rows.to(seen.device)[:, None].expand_as(seen), seen, "amax", include_self=False
        )
        return pooled[torch.argsort(order).to(seen.device)]

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the states a new order, in place: state i becomes what state order[i] was."""
        size = len(order)
        gates = torch.cat([order + gate * size for gate in range(3)])
        for weight in (self.input_weight, self.input_bias, self.recurrent_bias):
            weight.copy_(weight[gates])
        self.recurrent_weight.copy_(self.recurrent_weight[gates][:, order])

    def _states(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Return all states in order of time without gaps, the longest sequences first.

        Returns:
            states (sum of lengths, states), the order of the sequences (B,), on the CPU, and how
            many of them have a t-th vector.
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        alive = (lengths[None] > torch.arange(int(lengths.max()))[:, None]).sum(1).tolist()
        # One gather, whose gradient is one too, not one of all vectors for each step.
        rows = torch.cat([order[:count] * vectors.shape[1] + t for t, count in enumerate(alive)])
        words = vectors.flatten(0, 1).index_select(0, rows.to(vectors.device))
        # The biases of r and z are added once; that of the new state is inside, where r scales it.
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
    """The states of all steps, (sum of lengths, N), from the words' share of the gates."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (sum of lengths, 3 N), in order of time, with all biases but `bias`
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
            up = grad_state[:count].add_(grad_out[step])
            grad_r, grad_z, grad_n = grad_gates[step].chunk(3, 1)
            _through_tanh(torch.addcmul(up, up, z, value=-1), n, grad_input=grad_n)
            _through_sigmoid(grad_n * inner[step], r, grad_input=grad_r)
            # The state before this step, as it entered the product, rounded or not.
            change = previous[step].to(up.dtype) - n
            _through_sigmoid(change.mul_(up), z, grad_input=grad_z)
            low, inside = grad_recurrent[step], grad_n * r
            low[:, : 2 * states] = grad_gates[step, : 2 * states]
            low[:, 2 * states :] = inside
            grad_bias += inside.sum(0)
            torch.addcmul((low @ weight).to(up.dtype), up, z, out=up)
            start -= count
        grad_weight = (grad_recurrent.T @ previous).to(grad_state.dtype)
        return grad_gates, grad_weight, grad_bias, None, None
