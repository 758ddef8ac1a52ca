"""Numbered captions to points, with weights that no longer change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.text_encoder import CaptionEncoder, Ensemble, padded

Points: TypeAlias = NDArray[np.float32]

_CAPTIONS_PER_THREAD = 64  # some milliseconds of work, worth a thread of their own


class TextInference:
    """Encodes captions with the weights that an encoder has when this is made.

    On a CPU the weights are packed, see `models.encoders.packed_text_encoder`, and a caption's
    point has the same bits whichever captions it is encoded with.
    """

    def __init__(self, encoder: CaptionEncoder | Ensemble) -> None:
        self._encoder = encoder
        self._device = encoder.encoders[0].embedding.weight.device
        self._is_on_cpu = self._device.type == "cpu"
        if self._is_on_cpu:
            # Needs numba, which machines that only learn on a GPU may lack.
            from models.encoders.packed_text_encoder import PackedTextEncoder

            self._packed = [PackedTextEncoder(member) for member in encoder.encoders]

    def points(self, captions: Sequence[Sequence[int]], batch_size: int = 256) -> Points:
        """Return the points of captions, end marks included: -> (B, N) float32.

        Captions of like length are encoded together, at most `batch_size`: a batch takes as long
        as its longest. On a CPU as many threads as torch has encode batches.
        """
        size = sum(member.gru.recurrent_weight.shape[1] for member in self._encoder.encoders)
        points = np.empty((len(captions), size), np.float32)
        lengths = np.array([len(caption) for caption in captions], np.int64)
        by_length = np.argsort(-lengths, kind="stable")
        threads = torch.get_num_threads() if self._is_on_cpu else 1
        together = min(batch_size, max(_CAPTIONS_PER_THREAD, -(-len(captions) // threads)))
        encode = self._on_cpu if self._is_on_cpu else self._on_gpu

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

    def _on_cpu(self, captions: list[Sequence[int]], lengths: NDArray[np.int64]) -> Points:
        there = np.arange(lengths[0])[:, None] < lengths  # (T, B)
        alive = there.sum(1)
        words = {False: _by_time(captions, there)}
        if any(member.backwards for member in self._packed):
            reversed_captions = [[*caption[-2::-1], caption[-1]] for caption in captions]
            words[True] = _by_time(reversed_captions, there)
        shares = [member.points(words[member.backwards], alive) for member in self._packed]
        if len(shares) == 1:
            return shares[0]
        whole: Points = np.concatenate(shares, axis=1) / np.float32(math.sqrt(len(shares)))
        return whole

    @torch.inference_mode()
    def _on_gpu(self, captions: list[Sequence[int]], _: NDArray[np.int64]) -> Points:
        together, lengths = padded([torch.tensor(caption) for caption in captions])
        found: Points = self._encoder.points(together.to(self._device), lengths).cpu().numpy()
        return found


def _by_time(captions: Sequence[Sequence[int]], there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first words of captions, then the second, and so on; there is (T, B)."""
    numbers = np.zeros(there.shape, np.int64)
    numbers.T[there.T] = np.concatenate(captions)
    return numbers[there]
