"""What each step of a training reads, drawn from (seed, epoch, step) alone."""

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


class TextInputs(NamedTuple):
    """What one step learns from texts without pictures; see `hasse.studies.photographs.lesson`.

    Attributes:
        captions: (C, F), features of the batch's captions.
        others: tokens, lengths and features of other texts.
        derived: images (D,) of the batch; tokens, lengths and features of a text derived from a
            caption of each; and which texts hold of which images, (D, D).
        classes: features of pictures of classes, then as `derived` without images.
    """

    captions: Tensor
    others: tuple[Tensor, ...]
    derived: tuple[Tensor, ...] = ()
    classes: tuple[Tensor, ...] = ()


class Batch(NamedTuple):
    """What one step learns from.

    Attributes:
        captions: how many, those of all processes.
        inputs: the tensors that the step takes, on the CPU.
        texts: what it learns from texts without pictures, if anything.
    """

    captions: int
    inputs: tuple[Tensor, ...]
    texts: TextInputs | None = None


class TokenTable:
    """Numbered texts, one after the other, from which batches are taken."""

    def __init__(self, texts: Sequence[Sequence[int]], unknown_rate: float) -> None:
        """Take texts in words' numbers, and the share of words that training forgets."""
        self._words = np.concatenate(texts)
        self._lengths = np.array([len(words) for words in texts])
        self._first_word = np.cumsum(self._lengths) - self._lengths
        self._unknown_rate = unknown_rate

    def tokens(self, texts: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the words of texts, some forgotten: (C,) -> (C, T) padded and lengths (C,)."""
        lengths = self._lengths[texts]
        each = np.arange(lengths.max())
        at = self._first_word[texts][:, None] + each
        tokens = np.where(each < lengths[:, None], self._words.take(at, mode="clip"), PADDING)
        if self._unknown_rate > 0:
            forgotten = draw.random(tokens.shape) < self._unknown_rate
            tokens[forgotten & (tokens != PADDING) & (tokens != END)] = UNKNOWN
        return torch.from_numpy(tokens), torch.from_numpy(lengths)


class Batches:
    """The images and captions of all steps.

    Attributes:
        steps: of an epoch.
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
        """Number the images of a dataset; `captions` are all of theirs, in words' numbers."""
        self._size, self._take = size, captions_per_image
        self._seed = seed
        self._table = TokenTable(captions, unknown_rate)
        self._captions = np.array([len(image.captions) for image in dataset.images])
        self._first_caption = np.cumsum(self._captions) - self._captions
        # A last image alone joins the batch before: it has no false pair, nor a batch statistic.
        self.steps = math.ceil((len(dataset) - 1) / size)

    def of_epoch(self, epoch: int, first: int) -> Iterator[tuple[int, Rows, Rows, Rows]]:
        """Yield (step, images, captions, owners) from step `first` on.

        No image comes twice in an epoch. `owners` says which of the batch's images each of its
        captions was written for.
        """
        draw = np.random.default_rng([self._seed, epoch])
        order = draw.permutation(len(self._captions))
        chosen: Sequence[Rows]
        if self._take == 1:  # of each image what `choice` would draw, without a call for each
            chosen = (self._first_caption + draw.integers(self._captions))[:, None]
        else:
            each = zip(self._first_caption, self._captions, strict=True)
            chosen = [at + draw.choice(n, min(self._take, n), replace=False) for at, n in each]
        for step in range(first, self.steps):
            end = (step + 1) * self._size if step + 1 < self.steps else None
            rows = order[step * self._size : end]
            captions = [chosen[row] for row in rows]
            owners = np.repeat(np.arange(len(rows)), [len(own) for own in captions])
            yield step, rows, np.concatenate(captions), owners

    def draw(self, epoch: int, step: int) -> np.random.Generator:
        """Return what the rest of a step's choices are drawn from."""
        return np.random.default_rng([self._seed, epoch, step])

    def tokens(self, captions: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the words of captions, as `TokenTable.tokens`."""
        return self._table.tokens(captions, draw)


def seed_layers(*place: int) -> None:
    """Make what layers draw in training (units and blocks left out) depend on a place alone.

    The place is a seed and the numbers of a step. Torch's own generator would go on from where
    it is, which is elsewhere in a training that was stopped and resumed.
    """
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1)[0]))
