"""Numbered captions to points, in numpy and compiled kernels, with weights that stay."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hasse.models.encoders.model_config import CaptionPooling
from hasse.models.kernels.compiled import processor_threads

Length = Literal["unit", "learned", "free"]
Points: TypeAlias = NDArray[np.float32]
Captions: TypeAlias = list[Sequence[int]]
Encode: TypeAlias = Callable[[Captions, NDArray[np.int64]], Points]

_CAPTIONS_PER_THREAD = 64  # some milliseconds of work, worth a thread of their own
_WORDS = 64  # words whose gates are multiplied together, always the same ones


@cache
def _kernels() -> Any:
    """Return the compiled kernels, whose import takes longer than a few captions in numpy."""
    from hasse.models.kernels import cpu_gru

    return cpu_gru


def in_batches(
    encode: Encode, captions: Sequence[Sequence[int]], size: int, batch_size: int, threads: int
) -> Points:
    """Return what `encode` makes of captions and their lengths, in their order: -> (B, `size`).

    Captions of like length are encoded together, the longest first, at most `batch_size`: a batch
    takes as long as its longest.
    """
    points = np.empty((len(captions), size), np.float32)
    lengths = np.array([len(caption) for caption in captions], np.int64)
    by_length = np.argsort(-lengths, kind="stable")
    together = min(batch_size, max(_CAPTIONS_PER_THREAD, -(-len(captions) // threads)))

    def batch(start: int) -> None:
        rows = by_length[start : start + together]
        points[rows] = encode([captions[row] for row in rows], lengths[rows])

    starts = range(0, len(captions), together)
    if len(starts) > 1 and threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(batch, starts))
    else:
        for start in starts:
            batch(start)
    return points


class TextEncoder(Protocol):
    """A member of `TextInference`."""

    @property
    def size(self) -> int:
        """How many coordinates it gives, N."""

    @property
    def backwards(self) -> bool:
        """Whether it reads words from the last to the first."""

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions; arguments as those of `cpu_gru.run`."""


class TextInference:
    """Encodes captions with the members of an ensemble, or with one encoder, on a CPU.

    A caption's point has the same bits whichever captions it is encoded with.
    """

    def __init__(self, members: Sequence[TextEncoder]) -> None:
        self._members = members
        self._size = sum(member.size for member in members)

    def points(self, captions: Sequence[Sequence[int]], batch_size: int = 256) -> Points:
        """Return the points of captions, end marks included: -> (B, N) float32."""
        threads = 1 if len(captions) == 1 else processor_threads()
        return in_batches(self._encode, captions, self._size, batch_size, threads)

    def _encode(self, captions: Captions, lengths: NDArray[np.int64]) -> Points:
        there = np.arange(lengths[0])[:, None] < lengths  # (T, B)
        alive = there.sum(1)
        words = {False: _by_time(captions, there)}
        if any(member.backwards for member in self._members):
            reversed_captions: Captions = [[*each[-2::-1], each[-1]] for each in captions]
            words[True] = _by_time(reversed_captions, there)
        shares: list[Points] = [one.points(words[one.backwards], alive) for one in self._members]
        if len(shares) == 1:
            return shares[0]
        whole: Points = np.concatenate(shares, axis=1) / np.float32(math.sqrt(len(shares)))
        return whole


@dataclass(frozen=True, slots=True)
class Reading:
    """How an encoder reads captions: attributes of `CaptionEncoder`."""

    pooling: CaptionPooling
    signed: bool
    length: Length
    backwards: bool


class Lengths:
    """Gives encodings the lengths that points have."""

    def __init__(self, length: Length, weights: Mapping[str, Points]) -> None:
        """Take the state of a `CaptionEncoder`, as far as it is about lengths."""
        self._length = length
        self._head: tuple[Points, np.float32] | None = None
        if length == "learned":
            self._head = weights["length_head.weight"][0], weights["length_head.bias"][0]

    def given(self, encoded: Points) -> Points:
        """Return the points (B, N) of encodings (B, N)."""
        if self._length == "free":
            return encoded
        # Each row is summed up alone: a product would round by the number of rows.
        length = np.sqrt(np.square(encoded).sum(1, keepdims=True))
        points: Points = encoded / np.maximum(length, 1e-12)
        if self._head is not None:
            weight, bias = self._head
            points /= 1 + np.exp(-((encoded * weight).sum(1, keepdims=True) + bias))
        return points


class PackedTextEncoder:
    """Computes `CaptionEncoder.points` of a GRU without a head, to rounding.

    The weights are laid out for `hasse.models.kernels.cpu_gru`. Each word's share of the gates is
    multiplied when the word comes for the first time, and takes 12 N bytes from then on.

    Attributes:
        size: N.
        backwards: whether it reads words from the last to the first.
    """

    def __init__(
        self, weights: Mapping[str, Points], reading: Reading, *, halves: bool | None = None
    ) -> None:
        """Take the state of a `CaptionEncoder`; arrays are not copied."""
        recurrent, bias = weights["gru.recurrent_weight"], weights["gru.recurrent_bias"]
        self.size, self.backwards = recurrent.shape[1], reading.backwards
        self._reading = reading
        biases = weights["gru.input_bias"].copy()
        biases[: 2 * self.size] += bias[: 2 * self.size]
        self._gates = _WordGates(weights["embedding.weight"], weights["gru.input_weight"], biases)
        self._bias = _kernels().widened(bias[2 * self.size :])
        halves = _kernels().READS_HALVES if halves is None else halves
        self._weights = _kernels().packed(recurrent, halves=halves)
        self._lengths = Lengths(reading.length, weights)

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        shape = (int(alive[0]), len(self._bias))
        states, out = np.zeros((2, *shape), np.float32), np.full(shape, -np.inf, np.float32)
        arguments = (words, alive, self._gates.of(words), self._weights, self._bias)
        largest, signed = self._reading.pooling == "max", self._reading.signed
        _kernels().run(*arguments, states, out, largest, signed)
        return self._lengths.given(out[:, : self.size])


class _WordGates:
    """The table (V, 3, N') of `cpu_gru.run`, whose rows are filled when words first come.

    All words take a second and hundreds of megabytes, and a query has a few. Rows are multiplied in
    blocks that are always the same ones, so that their bits do not depend on who came first.
    """

    def __init__(self, words: Points, weight: Points, biases: Points) -> None:
        self._words, self._weight, self._biases = words, weight, biases
        width = _kernels().widened(biases.reshape(3, -1)).shape[1]
        self._table = np.empty((len(words), 3, width), np.float32)
        self._filled = np.zeros(-(-len(words) // _WORDS), np.bool_)
        self._lock = threading.Lock()

    def of(self, words: NDArray[np.int64]) -> Points:
        """Return the table, in which the rows of these words are filled."""
        blocks = np.unique(words // _WORDS)
        if not self._filled[blocks].all():
            with self._lock:
                for block in blocks[~self._filled[blocks]].tolist():
                    self._fill(block)
        return self._table

    def _fill(self, block: int) -> None:
        rows = slice(block * _WORDS, (block + 1) * _WORDS)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite shows in the points
            gates = self._words[rows] @ self._weight.T + self._biases
        self._table[rows] = _kernels().widened(gates.reshape(len(gates), 3, -1))
        self._filled[block] = True


def _by_time(captions: Captions, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first words of captions, then the second, and so on; there is (T, B)."""
    numbers = np.zeros(there.shape, np.int64)
    numbers.T[there.T] = np.concatenate(captions)
    return numbers[there]
