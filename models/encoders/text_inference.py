"""Numbered captions to points, with weights that do not change meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.text_encoder import CaptionEncoder, Members, padded

Points: TypeAlias = NDArray[np.float32]

_LEAST = 64  # captions that are worth a thread of their own: some milliseconds of work


class Reader:
    """Reads captions with the weights that an encoder has when this is made.

    On a CPU they are packed for it, see `models.encoders.packed_text_encoder`, and a
    caption's point is the same bits whichever captions it is read with.
    """

    def __init__(self, encoder: CaptionEncoder | Members) -> None:
        self._encoder = encoder
        self._device = encoder.encoders[0].embedding.weight.device
        self._is_on_cpu = self._device.type == "cpu"
        if self._is_on_cpu:
            # Of numba, which machines that only learn may lack.
            from models.encoders.packed_text_encoder import PackedEncoder

            self._packed = [PackedEncoder(part) for part in encoder.encoders]

    def points(self, captions: Sequence[Sequence[int]], batch_size: int = 256) -> Points:
        """Return the points of captions, end marks included: -> (B, N) float32.

        Captions of like length are read together, at most `batch_size`: a batch takes as long as
        its longest. On a CPU as many threads as torch has read batches.
        """
        size = sum(part.gru.recurrent_weight.shape[1] for part in self._encoder.encoders)
        points = np.empty((len(captions), size), np.float32)
        lengths = np.array([len(caption) for caption in captions], np.int64)
        by_length = np.argsort(-lengths, kind="stable")
        threads = torch.get_num_threads() if self._is_on_cpu else 1
        together = min(batch_size, max(_LEAST, -(-len(captions) // threads)))
        read = self._on_cpu if self._is_on_cpu else self._on_gpu

        def batch(start: int) -> None:
            rows = by_length[start : start + together]
            points[rows] = read([captions[row] for row in rows], lengths[rows])

        starts = range(0, len(captions), together)
        if len(starts) > 1 and threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(batch, starts))
        else:
            for start in starts:
                batch(start)
        return points

    def _on_cpu(self, captions: list[Sequence[int]], lengths: NDArray[np.int64]) -> Points:
        there = np.arange(lengths[0])[:, None] < lengths  # (T, B)
        alive = there.sum(1)
        words = {False: _by_time(captions, there)}
        if any(part.backwards for part in self._packed):
            turned = [[*caption[-2::-1], caption[-1]] for caption in captions]
            words[True] = _by_time(turned, there)
        parts = [part.read(words[part.backwards], alive) for part in self._packed]
        if len(parts) == 1:
            return parts[0]
        joined: Points = np.concatenate(parts, axis=1) / np.float32(math.sqrt(len(parts)))
        return joined

    @torch.inference_mode()
    def _on_gpu(self, captions: list[Sequence[int]], _: NDArray[np.int64]) -> Points:
        together, lengths = padded([torch.tensor(caption) for caption in captions])
        read: Points = self._encoder.points(together.to(self._device), lengths).cpu().numpy()
        return read


def _by_time(captions: Sequence[Sequence[int]], there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first words of captions, then the second, and so on; there is (T, B)."""
    numbers = np.zeros(there.shape, np.int64)
    numbers.T[there.T] = np.concatenate(captions)
    return numbers[there]
