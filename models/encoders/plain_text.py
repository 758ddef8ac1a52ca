"""Numbered captions to points in numpy, for a process that encodes a few of them.

The compiled kernels of `hasse.models.encoders.text_inference` take a second to load, and a caption
takes some milliseconds here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.text_inference import Lengths, Points, Reading


class PlainTextEncoder:
    """Computes what `PackedTextEncoder` does, to rounding.

    Attributes:
        size: N.
        backwards: whether it reads words from the last to the first.
    """

    def __init__(self, weights: Mapping[str, Points], reading: Reading) -> None:
        """Take the state of a `CaptionEncoder`; arrays are not copied."""
        self._words = weights["embedding.weight"]
        self._input, self._input_bias = weights["gru.input_weight"], weights["gru.input_bias"]
        self._recurrent = weights["gru.recurrent_weight"]
        self._recurrent_bias = weights["gru.recurrent_bias"]
        self.size, self.backwards = self._recurrent.shape[1], reading.backwards
        self._reading, self._lengths = reading, Lengths(reading.length, weights)

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        out = np.full((int(alive[0]), self.size), -np.inf, np.float32)
        starts = np.cumsum(alive) - alive
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite shows in the points
            # One by one: a product of matrices would round by the number of rows.
            for row, pooled in enumerate(out):
                self._read(words[starts[alive > row] + row], pooled)
        return self._lengths.given(out)

    def _read(self, words: NDArray[np.int64], pooled: Points) -> None:
        """Write the pooled states (N,) of one caption (T,) to `pooled`."""
        state = np.zeros(self.size, np.float32)
        for word in words:
            state = self._next(self._words[word], state)
            seen = state if self._reading.signed else np.abs(state)
            if self._reading.pooling == "max":
                np.maximum(pooled, seen, out=pooled)
            else:
                pooled[:] = seen

    def _next(self, vector: Points, state: Points) -> Points:
        """Return the state (N,) after a word (D,)."""
        gates = (self._input @ vector + self._input_bias).reshape(3, -1)
        recurrent = (self._recurrent @ state + self._recurrent_bias).reshape(3, -1)
        r, z = 1 / (1 + np.exp(-(gates[:2] + recurrent[:2])))
        new = np.tanh(gates[2] + r * recurrent[2])
        following: Points = new + z * (state - new)
        return following
