"""Long short-term memory that reads ragged captions, in one or in both directions.

With x a word, m the state and c the cell (Kiros et al., 2014, equations 1 to 5):

    i = sigmoid(Wi x + Ui m + pi * c + bi)         input gate
    f = sigmoid(Wf x + Uf m + pf * c + bf)         forget gate
    c' = f * c + i * tanh(Wc x + Uc m + bc)        cell
    o = sigmoid(Wo x + Uo m + po * c' + bo)        output gate
    m' = o * tanh(c')                              state

The vectors p are the peepholes, which `torch.nn.LSTM` lacks; without them its equations are the
same. As in `GRU`, the captions of a batch are sorted by length on a CPU, and nothing is computed
for padding. On a GPU states past a caption's end are computed, and not read.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hasse.lab.encoders.mixed_precision import low_precision_matmul

_GATES = 4  # input, forget, output, cell


class LSTM(nn.Module):
    """Read vectors one after the other.

    Attributes:
        peephole: (3, states), of the input, forget and output gates; None: no peepholes.
    """

    def __init__(self, inputs: int, states: int, *, peepholes: bool = True) -> None:
        """Initialise all weights uniformly in +-0.08, as the paper does, and biases at zero.

        Without peepholes recurrent weights are orthogonal and the rest He's, as Kiela et al. do.
        """
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(_GATES * states, inputs))
        self.recurrent_weight = nn.Parameter(torch.empty(_GATES * states, states))
        self.bias = nn.Parameter(torch.zeros(_GATES * states))
        self.peephole = nn.Parameter(torch.empty(3, states)) if peepholes else None
        if self.peephole is not None:
            for weight in (self.input_weight, self.recurrent_weight, self.peephole):
                nn.init.uniform_(weight, -0.08, 0.08)
            return
        nn.init.kaiming_normal_(self.input_weight, nonlinearity="linear")
        for gate in self.recurrent_weight.data.chunk(_GATES):
            nn.init.orthogonal_(gate)

    def forward(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return each sequence's state after its last vector; see `GRU.forward`."""
        states, rows, _ = self.states(vectors, lengths, matmul_dtype)
        return states[rows]

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = torch.float32,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the largest of each sequence's states in each coordinate; see `GRU.max_pool`."""
        states, _, owners = self.states(vectors, lengths, matmul_dtype)
        seen = states if signed else states.abs()
        pooled = seen.new_full((len(vectors), seen.shape[1]), -torch.inf)
        return pooled.scatter_reduce(0, owners[:, None].expand_as(seen), seen, "amax")

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the states a new order, in place: state i becomes what state order[i] was."""
        gates = torch.cat([order + gate * len(order) for gate in range(_GATES)])
        for weight in (self.input_weight, self.bias):
            weight.copy_(weight[gates])
        self.recurrent_weight.copy_(self.recurrent_weight[gates][:, order])
        if self.peephole is not None:
            self.peephole.copy_(self.peephole[:, order])

    def states(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype,
        start: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return all states in order of time, each sequence's last row, and their owners.

        Sequences start from zeros, or from states `start`, (B, N).

        Returns:
            states (S, N), the row of each sequence's last state (B,), and the sequence of each
            state (S,).
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        alive = (lengths[None] > torch.arange(int(lengths.max()))[:, None]).sum(1).tolist()
        owners = torch.cat([order[:some] for some in alive])
        read = torch.cat([order[:some] * vectors.shape[1] + t for t, some in enumerate(alive)])
        starts = torch.tensor([0, *alive]).cumsum(0)
        rows = starts[lengths - 1] + torch.argsort(order)
        read, rows, owners = (each.to(vectors.device) for each in (read, rows, owners))
        start = None if start is None else start[order.to(start.device)]
        return self._run(vectors.flatten(0, 1)[read], alive, matmul_dtype, start), rows, owners

    def _run(
        self, words: Tensor, alive: list[int], matmul_dtype: torch.dtype, start: Tensor | None
    ) -> Tensor:
        """Return the states of words in order of time: (.., inputs) -> (S, N)."""
        words = words.reshape(-1, words.shape[-1])
        inputs = low_precision_matmul(words, self.input_weight, matmul_dtype) + self.bias
        size = self.recurrent_weight.shape[1]
        weight = self.recurrent_weight.to(matmul_dtype)
        cell = inputs.new_zeros(alive[0], size)
        state = cell if start is None else start
        states = []
        for count, word in zip(alive, torch.split(inputs, alive), strict=True):
            state, cell = state[:count], cell[:count]
            gates = word + (state.to(matmul_dtype) @ weight.T).to(inputs.dtype)
            opening, output, new = gates.tensor_split((2 * size, 3 * size), 1)
            if self.peephole is not None:
                opening = opening + (cell[:, None] * self.peephole[:2]).flatten(1)
            accepted, remembered = opening.sigmoid().chunk(2, 1)
            cell = remembered * cell + accepted * new.tanh()
            if self.peephole is not None:
                output = output + cell * self.peephole[2]
            state = output.sigmoid() * cell.tanh()
            states.append(state)
        return torch.cat(states)


class BiLSTM(nn.Module):
    """One LSTM reads forwards and one backwards; the larger state counts in each coordinate.

    It is the sentence encoder of Kiela et al. (2018), which takes the larger of both *final*
    states.
    """

    def __init__(self, inputs: int, states: int) -> None:
        super().__init__()
        self.forwards = LSTM(inputs, states, peepholes=False)
        self.backwards = LSTM(inputs, states, peepholes=False)

    def forward(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return the larger of both final states: (B, T, inputs), (B,) -> (B, states)."""
        reversed_vectors = _reversed(vectors, lengths)
        return torch.maximum(
            self.forwards(vectors, lengths, matmul_dtype),
            self.backwards(reversed_vectors, lengths, matmul_dtype),
        )

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = torch.float32,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the largest of all states of both directions in each coordinate."""
        reversed_vectors = _reversed(vectors, lengths)
        return torch.maximum(
            self.forwards.max_pool(vectors, lengths, matmul_dtype, signed=signed),
            self.backwards.max_pool(reversed_vectors, lengths, matmul_dtype, signed=signed),
        )

    def renumber(self, order: Tensor) -> None:
        """Give the states a new order, in place."""
        self.forwards.renumber(order)
        self.backwards.renumber(order)


def _reversed(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Return sequences from their last vector to their first: (B, T, inputs), (B,)."""
    each = torch.arange(vectors.shape[1], device=vectors.device)
    last = lengths.to(vectors.device)[:, None] - 1
    rows = torch.where(each <= last, last - each, each)
    return vectors.gather(1, rows[..., None].expand_as(vectors))
