"""A caption encoder on a CPU, its weights laid out for the kernel of `models.kernels.cpu_gru`.

Imported only where captions are encoded on a CPU, since the kernel needs numba.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.text_encoder import CaptionEncoder
from models.kernels import cpu_gru


class PackedTextEncoder:
    """Computes `CaptionEncoder.points`, equal to rounding, with the weights as they are now.

    Each word's share of the gates is multiplied beforehand: 12 N bytes for each word there is.

    Attributes:
        size: N, the dimension of a point.
        backwards: whether words have to be given from the last to the first.
    """

    @torch.no_grad()
    def __init__(self, encoder: CaptionEncoder, *, halves: bool = cpu_gru.READS_HALVES) -> None:
        gru = encoder.gru
        size = gru.recurrent_weight.shape[1]
        self.size = size
        self.backwards = encoder.backwards
        self._max_pool, self._signed = encoder.pooling == "max", encoder.signed
        self._free = encoder.length == "free"
        biases = gru.input_bias.clone()
        biases[: 2 * size] += gru.recurrent_bias[: 2 * size]
        said = torch.addmm(biases, encoder.embedding.weight, gru.input_weight.T)  # (V, 3 N)
        self._table = cpu_gru.widened(said.view(-1, 3, size).numpy())
        self._bias = cpu_gru.widened(gru.recurrent_bias[2 * size :].numpy())
        self._weights = cpu_gru.packed(gru.recurrent_weight.numpy(), halves=halves)
        self._length_head: tuple[NDArray[np.float32], float] | None = None
        if (head := encoder.length_head) is not None:
            self._length_head = head.weight[0].numpy().copy(), head.bias.item()

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        shape = (int(alive[0]), len(self._bias))
        states, out = np.zeros((2, *shape), np.float32), np.full(shape, -np.inf, np.float32)
        given = (words, alive, self._table, self._weights, self._bias)
        cpu_gru.run(*given, states, out, self._max_pool, self._signed)
        encoded = out[:, : self.size]
        if self._free:
            return encoded
        # Each row is summed up alone: a product would round by the number of rows.
        length = np.sqrt(np.square(encoded).sum(1, keepdims=True))
        points: NDArray[np.float32] = encoded / np.maximum(length, 1e-12)
        if self._length_head is not None:
            weight, bias = self._length_head
            points /= 1 + np.exp(-((encoded * weight).sum(1, keepdims=True) + bias))
        return points
