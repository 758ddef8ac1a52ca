"""Captions, as word numbers, to points in numpy, for a process that encodes a few.

The compiled kernels of `hasse.models.encoders.text_inference` take a second to load, and a caption
takes some milliseconds here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.text_inference import PointLengths, Points, ReadingOptions


class PlainTextEncoder:
    """The same function as `PackedTextEncoder`, up to rounding.

    Attributes:
        size: N.
        backwards: whether it reads words from the last to the first.
    """

    def __init__(self, weights: Mapping[str, Points], reading: ReadingOptions) -> None:
        """Make an encoder from the state of a `CaptionEncoder`, without copying arrays."""
        self._words = weights["embedding.weight"]
        self._input, self._input_bias = weights["gru.input_weight"], weights["gru.input_bias"]
        self._recurrent = weights["gru.recurrent_weight"]
        self._recurrent_bias = weights["gru.recurrent_bias"]
        self.size, self.backwards = self._recurrent.shape[1], reading.backwards
        self._reading, self._lengths = reading, PointLengths(reading.length, weights)

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        out = np.full((int(alive[0]), self.size), -np.inf, np.float32)
        starts = np.cumsum(alive) - alive
        with np.errstate(over="ignore", invalid="ignore"):  # points show what is not finite
            # One by one: the rounding of a matrix product depends on the number of rows.
            for row, pooled in enumerate(out):
                self._read(words[starts[alive > row] + row], pooled)
        return self._lengths.apply(out)

    def _read(self, words: NDArray[np.int64], pooled: Points) -> None:
        """Write the pooled states (N,) of one caption (T,) to `pooled`."""
        state = np.zeros(self.size, np.float32)
        for word in words:
            state = self._next(self._words[word], state)
            value = state if self._reading.signed else np.abs(state)
            if self._reading.pooling == "max":
                np.maximum(pooled, value, out=pooled)
            else:
                pooled[:] = value

    def _next(self, vector: Points, state: Points) -> Points:
        """Return the state (N,) after a word (D,)."""
        gates = (self._input @ vector + self._input_bias).reshape(3, -1)
        recurrent = (self._recurrent @ state + self._recurrent_bias).reshape(3, -1)
        r, z = 1 / (1 + np.exp(-(gates[:2] + recurrent[:2])))
        new = np.tanh(gates[2] + r * recurrent[2])
        next_state: Points = new + z * (state - new)
        return next_state
