"""The batches of a training, drawn from (seed, epoch, step) alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.datasets import Dataset
from hasse.models.vocabulary import END, PADDING, UNKNOWN

Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """The inputs of one step.

    Attributes:
        captions: number of captions in all processes.
        inputs: the tensors that the step takes, on the CPU.
        lessons: the tensors of each lesson (`Lesson.read`), on the CPU.
    """

    captions: int
    inputs: tuple[Tensor, ...]
    lessons: tuple[tuple[Tensor, ...], ...] = ()


class TokenTable:
    """Tokens of many texts in one array, for batches of any of them."""

    def __init__(self, texts: Sequence[Sequence[int]], unknown_rate: float) -> None:
        """Take texts as word numbers, and the share of words to replace by the unknown word."""
        self._words = np.concatenate(texts)
        self._lengths = np.array([len(words) for words in texts])
        self._first_word = np.cumsum(self._lengths) - self._lengths
        self._unknown_rate = unknown_rate

    def tokens(self, texts: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return tokens, some replaced by the unknown word: (C,) -> (C, T) padded, lengths (C,)."""
        lengths = self._lengths[texts]
        positions = np.arange(lengths.max())
        word_rows = self._first_word[texts][:, None] + positions
        tokens = np.where(
            positions < lengths[:, None], self._words.take(word_rows, mode="clip"), PADDING
        )
        if self._unknown_rate > 0:
            replaced = draw.random(tokens.shape) < self._unknown_rate
            tokens[replaced & (tokens != PADDING) & (tokens != END)] = UNKNOWN
        return torch.from_numpy(tokens), torch.from_numpy(lengths)


class Batches:
    """The images and captions of all steps.

    Attributes:
        steps: number of steps in an epoch.
    """

    def __init__(
        self,
        dataset: Dataset,
        captions: Sequence[Sequence[int]],
        *,
        size: int,
        captions_per_image: int,
        unknown_rate: float,
        seed: int,
    ) -> None:
        """Plan the batches of a dataset; `captions` are all of its captions as word numbers."""
        self._size, self._take = size, captions_per_image
        self._seed = seed
        self._table = TokenTable(captions, unknown_rate)
        self._captions = np.array([len(image.captions) for image in dataset.images])
        self._first_caption = np.cumsum(self._captions) - self._captions
        # A single last image joins the batch before it: alone it has no batch statistics.
        self.steps = math.ceil((len(dataset) - 1) / size)

    def of_epoch(self, epoch: int, first: int) -> Iterator[tuple[int, Rows, Rows, Rows]]:
        """Yield (step, images, captions, owners) from step `first` on.

        No image comes twice in an epoch. `owners` has, for each caption, the row in the batch of
        the image that it was written for.
        """
        draw = np.random.default_rng([self._seed, epoch])
        order = draw.permutation(len(self._captions))
        drawn: Sequence[Rows]
        if self._take == 1:  # the same draw as `choice`, in one call for all images
            drawn = (self._first_caption + draw.integers(self._captions))[:, None]
        else:
            ranges = zip(self._first_caption, self._captions, strict=True)
            drawn = [
                start + draw.choice(n, min(self._take, n), replace=False) for start, n in ranges
            ]
        for step in range(first, self.steps):
            end = (step + 1) * self._size if step + 1 < self.steps else None
            rows = order[step * self._size : end]
            captions = [drawn[row] for row in rows]
            owners = np.repeat(np.arange(len(rows)), [len(of_image) for of_image in captions])
            yield step, rows, np.concatenate(captions), owners

    def draw(self, epoch: int, step: int) -> np.random.Generator:
        """Return the generator of a step's other random choices."""
        return np.random.default_rng([self._seed, epoch, step])

    def tokens(self, captions: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the tokens of captions, as `TokenTable.tokens`."""
        return self._table.tokens(captions, draw)


def seed_layers(*numbers: int) -> None:
    """Seed torch's generator, which draws dropout masks, by a seed and the numbers of a step.

    Otherwise a resumed training would draw other masks than one that was not stopped.
    """
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
