"""Numbered captions to points, with weights that no longer change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.models.encoders.text_encoder import CaptionEncoder, Ensemble, padded

Points: TypeAlias = NDArray[np.float32]

_CAPTIONS_PER_THREAD = 64  # some milliseconds of work, worth a thread of their own


class TextInference:
    """Encodes captions with the weights that an encoder has when this is made.

    On a CPU a GRU without a head is compiled, and a caption's point has the same bits whichever
    captions it is encoded with. All else runs in torch.
    """

    def __init__(self, encoder: CaptionEncoder | Ensemble) -> None:
        self._encoder = encoder
        self._size = sum(member.dimension for member in encoder.encoders)
        self._device = encoder.encoders[0].embedding.weight.device
        self._is_on_cpu = self._device.type == "cpu"
        first = encoder.encoders[0]
        plain = first.kind == "gru" and first.head is None and first.word_map is None
        self._is_packed = self._is_on_cpu and plain
        if self._is_packed:
            self._packed = [PackedTextEncoder(member) for member in encoder.encoders]

    def points(self, captions: Sequence[Sequence[int]], batch_size: int = 256) -> Points:
        """Return the points of captions, end marks included: -> (B, N) float32.

        Captions of like length are encoded together, at most `batch_size`: a batch takes as long
        as its longest. On a CPU as many threads as torch has encode batches.
        """
        points = np.empty((len(captions), self._size), np.float32)
        lengths = np.array([len(caption) for caption in captions], np.int64)
        by_length = np.argsort(-lengths, kind="stable")
        threads = torch.get_num_threads() if self._is_on_cpu else 1
        together = min(batch_size, max(_CAPTIONS_PER_THREAD, -(-len(captions) // threads)))
        encode = self._by_kernel if self._is_packed else self._by_torch

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

    def _by_kernel(self, captions: list[Sequence[int]], lengths: NDArray[np.int64]) -> Points:
        there = np.arange(lengths[0])[:, None] < lengths  # (T, B)
        alive = there.sum(1)
        words = {False: _by_time(captions, there)}
        if any(member.backwards for member in self._packed):
            reversed_captions = [[*caption[-2::-1], caption[-1]] for caption in captions]
            words[True] = _by_time(reversed_captions, there)
        members = self._packed
        shares: list[Points] = [one.points(words[one.backwards], alive) for one in members]
        if len(shares) == 1:
            return shares[0]
        whole: Points = np.concatenate(shares, axis=1) / np.float32(math.sqrt(len(shares)))
        return whole

    @torch.inference_mode()
    def _by_torch(self, captions: list[Sequence[int]], _: NDArray[np.int64]) -> Points:
        together, lengths = padded([torch.tensor(caption) for caption in captions])
        found: Points = self._encoder.points(together.to(self._device), lengths).cpu().numpy()
        return found


class PackedTextEncoder:
    """Computes `CaptionEncoder.points` on a CPU, to rounding, with the weights of now.

    They are laid out for `hasse.models.kernels.cpu_gru`, and each word's share of the gates is
    multiplied beforehand: 12 N bytes for each word there is.

    Attributes:
        backwards: whether it reads words from the last to the first.
    """

    @torch.no_grad()
    def __init__(self, encoder: CaptionEncoder, *, halves: bool | None = None) -> None:
        from hasse.models.kernels import (
            cpu_gru,  # needs numba, which a GPU that only learns may lack
        )

        self._run = cpu_gru.run
        gru = encoder.gru
        size = gru.recurrent_weight.shape[1]
        self._size = size
        self.backwards = encoder.backwards
        self._max_pool, self._signed = encoder.pooling == "max", encoder.signed
        self._free = encoder.length == "free"
        biases = gru.input_bias.clone()
        biases[: 2 * size] += gru.recurrent_bias[: 2 * size]
        inputs = torch.addmm(biases, encoder.embedding.weight, gru.input_weight.T)  # (V, 3 N)
        self._table = cpu_gru.widened(inputs.view(-1, 3, size).numpy())
        self._bias = cpu_gru.widened(gru.recurrent_bias[2 * size :].numpy())
        halves = cpu_gru.READS_HALVES if halves is None else halves
        self._weights = cpu_gru.packed(gru.recurrent_weight.numpy(), halves=halves)
        self._length_head: tuple[NDArray[np.float32], float] | None = None
        if (head := encoder.length_head) is not None:
            self._length_head = head.weight[0].numpy().copy(), head.bias.item()

    def points(self, words: NDArray[np.int64], alive: NDArray[np.int64]) -> Points:
        """Return the points (B, N) of captions, the longest first; arguments as `cpu_gru.run`."""
        shape = (int(alive[0]), len(self._bias))
        states, out = np.zeros((2, *shape), np.float32), np.full(shape, -np.inf, np.float32)
        arguments = (words, alive, self._table, self._weights, self._bias)
        self._run(*arguments, states, out, self._max_pool, self._signed)
        encoded = out[:, : self._size]
        if self._free:
            return encoded
        # Each row is summed up alone: a product would round by the number of rows.
        length = np.sqrt(np.square(encoded).sum(1, keepdims=True))
        points: Points = encoded / np.maximum(length, 1e-12)
        if self._length_head is not None:
            weight, bias = self._length_head
            points /= 1 + np.exp(-((encoded * weight).sum(1, keepdims=True) + bias))
        return points


def _by_time(captions: Sequence[Sequence[int]], there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first words of captions, then the second, and so on; there is (T, B)."""
    numbers = np.zeros(there.shape, np.int64)
    numbers.T[there.T] = np.concatenate(captions)
    return numbers[there]
