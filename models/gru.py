"""A gated recurrent unit that reads ragged captions, and learns fast on a CPU.

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
the state itself stays float32. On a GPU the steps are those of `models.fused_gru`, and captions
that are read on a CPU to be searched or measured take those of `models.packed_gru`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


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
        self, vectors: Tensor, lengths: Tensor, product: torch.dtype = torch.float32
    ) -> Tensor:
        """Return each sequence's state after its last vector.

        Args:
            vectors: (B, T, inputs); those past a sequence's length are not read.
            lengths: (B,) int64, from 1 to T, on the CPU; those of vectors on a GPU may be there.
            product: the type in which matrices are multiplied.

        Returns:
            (B, states)
        """
        if vectors.is_cuda:
            return self._read_fused(vectors, lengths, product)[0][-1]
        states, order, alive = self._read(vectors, lengths, product)
        starts = torch.tensor([0, *alive]).cumsum(0)
        rows = starts[lengths[order] - 1] + torch.arange(len(lengths))
        return states[rows][torch.argsort(order)]

    def every(
        self, vectors: Tensor, lengths: Tensor, product: torch.dtype = torch.float32
    ) -> Tensor:
        """Return each sequence's states after all its vectors, zero past its end.

        Arguments as of `forward`. Returns (B, T, states), T the length of the longest; on a GPU
        that of the vectors.
        """
        if vectors.is_cuda:
            kept, read = self._read_fused(vectors, lengths, product)
            return kept.masked_fill(~read[..., None], 0).transpose(0, 1)
        states, order, alive = self._read(vectors, lengths, product)
        steps = [
            pad(step, (0, 0, 0, len(lengths) - len(step))) for step in torch.split(states, alive)
        ]
        return torch.stack(steps, 1)[torch.argsort(order)]

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the states a new order, in place: state i becomes what state order[i] was."""
        size = len(order)
        gates = torch.cat([order + gate * size for gate in range(3)])
        for weight in (self.input_weight, self.input_bias, self.recurrent_bias):
            weight.copy_(weight[gates])
        self.recurrent_weight.copy_(self.recurrent_weight[gates][:, order])

    def _read_fused(
        self, vectors: Tensor, lengths: Tensor, product: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return all states, (T, B, states), and (T, B): which are not past the end."""
        # Of Triton, which machines without a GPU may lack.
        from models.fused_gru import FusedGRU, tensor_cores

        # Only learning may round: a service reads captions in threads, and the setting is theirs.
        rounded = tensor_cores() if torch.is_grad_enabled() else nullcontext()
        steps = torch.arange(vectors.shape[1], device=vectors.device)[:, None]
        alive = steps < lengths.to(vectors.device)
        with torch.cuda.device(vectors.device), rounded:
            states: Tensor = FusedGRU.apply(
                vectors.transpose(0, 1),
                self.input_weight,
                self.recurrent_weight,
                self.input_bias,
                self.recurrent_bias,
                alive,
                product,
            )
        return states, alive

    def _read(
        self, vectors: Tensor, lengths: Tensor, product: torch.dtype
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Return all states in order of time without gaps, the longest sequences first.

        Returns:
            states (sum of lengths, states), the order of the sequences (B,), and how many of
            them have a t-th vector.
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        alive = (lengths[None] > torch.arange(int(lengths.max()))[:, None]).sum(1).tolist()
        words = torch.cat([vectors[order[:count], t] for t, count in enumerate(alive)])
        gates = _Product.apply(words, self.input_weight, product) + self.input_bias
        states = _Recurrence.apply(
            gates, self.recurrent_weight, self.recurrent_bias, alive, product
        )
        return states, order, alive


class _Product(torch.autograd.Function):
    """x W^T, with all three products of forward and backward in one type: (B, K) -> (B, M)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, product: torch.dtype) -> Tensor:
        x_low, weight_low = x.to(product), weight.to(product)
        ctx.save_for_backward(x_low, weight_low)
        return (x_low @ weight_low.T).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        low = grad.to(x.dtype)
        return (low @ weight).to(grad.dtype), (low.T @ x).to(grad.dtype), None


class _Recurrence(torch.autograd.Function):
    """The states of all steps, (sum of lengths, N), from the words' share of the gates."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,  # (sum of lengths, 3 N), in order of time
        weight: Tensor,  # (3 N, N)
        bias: Tensor,  # (3 N,)
        alive: list[int],  # how many sequences have a t-th word; never grows
        product: torch.dtype,
    ) -> Tensor:
        states = weight.shape[1]
        state = gates.new_zeros(alive[0], states)
        weight_low = weight.to(product)
        previous = gates.new_empty(len(gates), states, dtype=product)
        kept = gates.new_empty(4, len(gates), states)  # r, z, n and Un h + cn
        out = gates.new_empty(len(gates), states)
        start = 0
        for count in alive:
            step = slice(start, start + count)
            low = previous[step].copy_(state[:count])
            recurrent = (low @ weight_low.T).to(gates.dtype) + bias  # (count, 3 N)
            word = gates[step]
            r, z, n, inner = kept[:, step]
            torch.sigmoid(word[:, :states] + recurrent[:, :states], out=r)
            torch.sigmoid(word[:, states : 2 * states] + recurrent[:, states : 2 * states], out=z)
            inner.copy_(recurrent[:, 2 * states :])
            torch.tanh(word[:, 2 * states :] + r * inner, out=n)
            state[:count] = out[step] = torch.lerp(n, state[:count], z)
            start += count
        ctx.save_for_backward(previous, kept, weight_low)
        ctx.alive = alive
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        previous, kept, weight = ctx.saved_tensors
        (grad_out,) = grads
        states = weight.shape[1]
        grad_state = grad_out.new_zeros(ctx.alive[0], states)
        grad_gates = grad_state.new_empty(len(previous), 3 * states)
        grad_recurrent = torch.empty_like(grad_gates)
        start = len(previous)
        for count in reversed(ctx.alive):
            step = slice(start - count, start)
            r, z, n, inner = kept[:, step]
            up = grad_state[:count].add_(grad_out[step])
            grad_n = up * (1 - z) * (1 - n * n)
            grad_r = grad_n * inner * r * (1 - r)
            # The state before this step is kept as it entered the product, rounded or not.
            grad_z = up * (previous[step].to(up.dtype) - n) * z * (1 - z)
            grad_gates[step] = torch.cat((grad_r, grad_z, grad_n), 1)
            grad_recurrent[step] = torch.cat((grad_r, grad_z, grad_n * r), 1)
            through = (grad_recurrent[step].to(weight.dtype) @ weight).to(up.dtype)
            grad_state[:count] = up * z + through
            start -= count
        low = grad_recurrent.to(weight.dtype)
        grad_weight = (low.T @ previous).to(grad_state.dtype)
        return grad_gates, grad_weight, grad_recurrent.sum(0), None, None
