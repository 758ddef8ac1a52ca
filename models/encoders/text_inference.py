"""Captions, as word numbers, to points, in numpy and compiled kernels, with constant weights."""

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

_CAPTIONS_PER_THREAD = 64  # some milliseconds of work, enough for one more thread
_WORDS = 64  # in a block, whose gates are computed together


@cache
def _kernels() -> Any:
    """Return the compiled kernels; importing them takes longer than a few captions in numpy."""
    from hasse.models.kernels import cpu_gru

    return cpu_gru


def encode_in_batches(
    encode: Encode, captions: Sequence[Sequence[int]], size: int, batch_size: int, threads: int
) -> Points:
    """Return the results of `encode`, from captions and lengths, in order: -> (B, `size`).

    Captions of similar length are encoded together, the longest first, at most `batch_size` of
    them: a batch takes as long as its longest caption.
    """
    points = np.empty((len(captions), size), np.float32)
    lengths = np.array([len(caption) for caption in captions], np.int64)
    by_length = np.argsort(-lengths, kind="stable")
    batch_rows = min(batch_size, max(_CAPTIONS_PER_THREAD, -(-len(captions) // threads)))

    def batch(start: int) -> None:
        rows = by_length[start : start + batch_rows]
        points[rows] = encode([captions[row] for row in rows], lengths[rows])

    starts = range(0, len(captions), batch_rows)
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
        """N, the number of coordinates."""

    @property
    def backwards(self) -> bool:
        """Whether it reads words from the last to the first."""

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions; arguments as in `cpu_gru.run`."""


class TextInference:
    """Encodes captions with the members of an ensemble, or with one encoder, on a CPU.

    The bits of a caption's point do not depend on the other captions of a batch.
    """

    def __init__(self, members: Sequence[TextEncoder]) -> None:
        self._members = members
        self._size = sum(member.size for member in members)

    def points(self, captions: Sequence[Sequence[int]], batch_size: int = 256) -> Points:
        """Return the points of captions, end marks included: -> (B, N) float32."""
        threads = 1 if len(captions) == 1 else processor_threads()
        return encode_in_batches(self._encode, captions, self._size, batch_size, threads)

    def _encode(self, captions: Captions, lengths: NDArray[np.int64]) -> Points:
        has_word = np.arange(lengths[0])[:, None] < lengths  # (T, B)
        alive = has_word.sum(1)
        words = {False: _by_time(captions, has_word)}
        if any(member.backwards for member in self._members):
            reversed_captions: Captions = [[*each[-2::-1], each[-1]] for each in captions]
            words[True] = _by_time(reversed_captions, has_word)
        parts: list[Points] = [each.points(words[each.backwards], alive) for each in self._members]
        if len(parts) == 1:
            return parts[0]
        points: Points = np.concatenate(parts, axis=1) / np.float32(math.sqrt(len(parts)))
        return points


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Attributes of `CaptionEncoder`, without its weights."""

    pooling: CaptionPooling
    signed: bool
    length: Length
    backwards: bool


class PointLengths:
    """Scales encodings to the lengths of points."""

    def __init__(self, length: Length, weights: Mapping[str, Points]) -> None:
        """Take the weights of lengths from the state of a `CaptionEncoder`."""
        self._length = length
        self._head: tuple[Points, np.float32] | None = None
        if length == "learned":
            self._head = weights["length_head.weight"][0], weights["length_head.bias"][0]

    def apply(self, encoded: Points) -> Points:
        """Return the points (B, N) of encodings (B, N)."""
        if self._length == "free":
            return encoded
        # Each row is summed separately: the rounding of a product depends on the number of rows.
        length = np.sqrt(np.square(encoded).sum(1, keepdims=True))
        points: Points = encoded / np.maximum(length, 1e-12)
        if self._head is not None:
            weight, bias = self._head
            points /= 1 + np.exp(-((encoded * weight).sum(1, keepdims=True) + bias))
        return points


class PackedTextEncoder:
    """The same function as `CaptionEncoder.points` of a GRU without a head, up to rounding.

    The weights are packed for `hasse.models.kernels.cpu_gru`. The input terms of a word's gates are
    computed when the word first occurs, and take 12 N bytes.

    Attributes:
        size: N.
        backwards: whether it reads words from the last to the first.
    """

    def __init__(
        self, weights: Mapping[str, Points], reading: ReadingOptions, *, halves: bool | None = None
    ) -> None:
        """Make an encoder from the state of a `CaptionEncoder`, without copying arrays."""
        recurrent, bias = weights["gru.recurrent_weight"], weights["gru.recurrent_bias"]
        self.size, self.backwards = recurrent.shape[1], reading.backwards
        self._reading = reading
        biases = weights["gru.input_bias"].copy()
        biases[: 2 * self.size] += bias[: 2 * self.size]
        self._gates = _WordGates(weights["embedding.weight"], weights["gru.input_weight"], biases)
        self._bias = _kernels().pad_coordinates(bias[2 * self.size :])
        halves = _kernels().READS_HALVES if halves is None else halves
        self._weights = _kernels().pack(recurrent, halves=halves)
        self._lengths = PointLengths(reading.length, weights)

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        shape = (int(alive[0]), len(self._bias))
        states, out = np.zeros((2, *shape), np.float32), np.full(shape, -np.inf, np.float32)
        arguments = (words, alive, self._gates.of(words), self._weights, self._bias)
        largest, signed = self._reading.pooling == "max", self._reading.signed
        _kernels().run(*arguments, states, out, largest, signed)
        return self._lengths.apply(out[:, : self.size])


class _WordGates:
    """The table (V, 3, N') of `cpu_gru.run`; a row is filled when its word first occurs.

    Filling the whole table takes a second and hundreds of megabytes, and a query has few words.
    Rows are computed in fixed blocks, so that their bits do not depend on the order of words.
    """

    def __init__(self, words: Points, weight: Points, biases: Points) -> None:
        self._words, self._weight, self._biases = words, weight, biases
        width = _kernels().pad_coordinates(biases.reshape(3, -1)).shape[1]
        self._table = np.empty((len(words), 3, width), np.float32)
        self._filled = np.zeros(-(-len(words) // _WORDS), np.bool_)
        self._lock = threading.Lock()

    def of(self, words: NDArray[np.int64]) -> Points:
        """Fill the rows of these words, and return the table."""
        blocks = np.unique(words // _WORDS)
        if not self._filled[blocks].all():
            with self._lock:
                for block in blocks[~self._filled[blocks]].tolist():
                    self._fill(block)
        return self._table

    def _fill(self, block: int) -> None:
        rows = slice(block * _WORDS, (block + 1) * _WORDS)
        with np.errstate(over="ignore", invalid="ignore"):  # points show what is not finite
            gates = self._words[rows] @ self._weight.T + self._biases
        self._table[rows] = _kernels().pad_coordinates(gates.reshape(len(gates), 3, -1))
        self._filled[block] = True


def _by_time(captions: Captions, has_word: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first words of all captions, then the second ones; `has_word` is (T, B)."""
    numbers = np.zeros(has_word.shape, np.int64)
    numbers.T[has_word.T] = np.concatenate(captions)
    return numbers[has_word]
