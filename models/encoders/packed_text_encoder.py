"""A caption encoder on a CPU, its weights laid out for the kernel of `models.kernels.cpu_gru`.

Of numba, so this module is imported where captions are read on a CPU only.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.text_encoder import CaptionEncoder
from models.kernels import cpu_gru


class PackedEncoder:
    """What `CaptionEncoder.points` computes, equal to rounding, with the weights as they are now.

    What a word says to the gates is multiplied beforehand: 12 N bytes for each word there is.

    Attributes:
        size: N, the dimension of a point.
        backwards: whether it is to be given words from the last to the first.
    """

    @torch.no_grad()
    def __init__(self, encoder: CaptionEncoder) -> None:
        gru = encoder.gru
        size = gru.recurrent_weight.shape[1]
        self.size = size
        self.backwards = encoder.backwards
        self._join, self._signed = encoder.reading == "join", encoder.signed
        self._free = encoder.length == "free"
        biases = gru.input_bias.clone()
        biases[: 2 * size] += gru.recurrent_bias[: 2 * size]
        said = torch.addmm(biases, encoder.embedding.weight, gru.input_weight.T)  # (V, 3 N)
        self._table = cpu_gru.widened(said.view(-1, 3, size).numpy())
        self._bias = cpu_gru.widened(gru.recurrent_bias[2 * size :].numpy())
        self._weights = cpu_gru.packed(gru.recurrent_weight.numpy())
        self._extent: tuple[NDArray[np.float32], float] | None = None
        if encoder.extent is not None:
            self._extent = encoder.extent.weight[0].numpy().copy(), encoder.extent.bias.item()

    def read(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the points (B, N) of captions, the longest first; as `packed_gru.read` has them.

        A point does not depend on what its caption is read with.
        """
        shape = (int(alive[0]), len(self._bias))
        states, out = np.zeros((2, *shape), np.float32), np.full(shape, -np.inf, np.float32)
        given = (words, alive, self._table, self._weights, self._bias)
        cpu_gru.read(*given, states, out, self._join, self._signed)
        encoded = out[:, : self.size]
        if self._free:
            return encoded
        # Each row is summed up alone: a product would round by the number of rows.
        length = np.sqrt(np.square(encoded).sum(1, keepdims=True))
        points: NDArray[np.float32] = encoded / np.maximum(length, 1e-12)
        if self._extent is not None:
            weight, bias = self._extent
            points /= 1 + np.exp(-((encoded * weight).sum(1, keepdims=True) + bias))
        return points
