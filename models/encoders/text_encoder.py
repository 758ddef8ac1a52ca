"""Captions to points: word embeddings and a GRU (Vendrov et al., section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from models.encoders.gru import GRU
from models.vocabulary import PADDING

Reading = Literal["last", "join"]
Length = Literal["unit", "learned", "free"]
WIDEST = 1000  # a word_range beyond which nothing is learned
MOST_COORDINATES = 65_536  # of a point or a word: the GRU has three times their square of weights


def padded(captions: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Put numbered captions of any lengths together: -> (B, T), padded, and (B,) lengths."""
    lengths = torch.tensor([len(caption) for caption in captions])
    return pad_sequence(list(captions), batch_first=True, padding_value=PADDING), lengths


def turned(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Put the last word first and the first last, before the end mark: (B, T), (B,) -> (B, T)."""
    each = torch.arange(tokens.shape[1], device=tokens.device)
    last = lengths.to(tokens.device)[:, None] - 2
    return tokens.gather(1, torch.where(each <= last, last - each, each))


class CaptionEncoder(nn.Module):
    """Read a caption word by word and keep the last state, or the join of all.

    Attributes:
        reading: "last", the paper's, or "join": the largest of all states in each coordinate, so
            that what a word says is not forgotten in the words after it.
        signed: whether points keep their signs.
        length: of a point: "unit"; "learned", between 0 and 1; or "free", as the states are. Of two
            points of one length neither is above the other, so captions follow from captions only
            where the general are shorter.
        backwards: whether words are read from the last to the first; the end mark is last even so.
        product: the type in which the GRU multiplies matrices; bfloat16 trains faster.
    """

    def __init__(
        self,
        words: int,
        word_dimension: int,
        dimension: int,
        word_range: float = 0.1,
        *,
        reading: Reading = "last",
        signed: bool = False,
        length: Length = "unit",
        backwards: bool = False,
    ) -> None:
        super().__init__()
        self.reading = reading
        self.signed = signed
        self.length = length
        self.backwards = backwards
        self.embedding = nn.Embedding(words, word_dimension, padding_idx=PADDING)
        self.gru = GRU(word_dimension, dimension)
        self.product = torch.float32
        nn.init.uniform_(self.embedding.weight, -word_range, word_range)
        with torch.no_grad():
            self.embedding.weight[PADDING].zero_()
        self.extent = nn.Linear(dimension, 1) if length == "learned" else None
        if self.extent is not None:
            nn.init.zeros_(self.extent.weight)
            nn.init.zeros_(self.extent.bias)

    @property
    def encoders(self) -> tuple[CaptionEncoder, ...]:
        """The encoders that each give a part of the coordinates, as of `Members`: this one."""
        return (self,)

    def points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the points of padded captions, of the length asked for; as `forward`."""
        encoded: Tensor = self(tokens, lengths)
        if not self.signed:
            encoded = encoded.abs()
        if self.length == "free":
            return encoded
        unit = normalize(encoded, dim=-1)
        return unit if self.extent is None else unit * self.extent(encoded).sigmoid()

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        self.gru.renumber(order)
        if self.extent is not None:
            self.extent.weight.copy_(self.extent.weight[:, order])

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode padded captions: (B, T) int64 and (B,) int64 as of `GRU` -> (B, N).

        `lengths` counts the end mark, so every caption has at least one token.
        """
        vectors = self.embedding(turned(tokens, lengths) if self.backwards else tokens)
        if self.reading == "last":
            last: Tensor = self.gru(vectors, lengths, self.product)
            return last
        return self.gru.join(vectors, lengths, self.product, signed=self.signed)


class Members(nn.Module):
    """Encoders that each give a part of the coordinates; see `ModelConfig.members`.

    Attributes:
        encoders: one for each part, in the order of the coordinates.
    """

    def __init__(self, encoders: Sequence[CaptionEncoder]) -> None:
        super().__init__()
        self.encoders = tuple(encoders)
        for at, encoder in enumerate(encoders):
            self.add_module(str(at), encoder)

    @property
    def product(self) -> torch.dtype:
        """The type in which the GRUs multiply matrices."""
        return self.encoders[0].product

    @product.setter
    def product(self, product: torch.dtype) -> None:
        for encoder in self.encoders:
            encoder.product = product

    def points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the points of padded captions, as `CaptionEncoder.points`: (B, T), (B,), (B, N).

        Each part is as long as the others, and the whole as a part alone would be.
        """
        parts = [encoder.points(tokens, lengths) for encoder in self.encoders]
        return torch.cat(parts, -1) / math.sqrt(len(parts))

    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place, each member's among themselves."""
        parts = order.reshape(len(self.encoders), -1)
        for at, (encoder, part) in enumerate(zip(self.encoders, parts, strict=True)):
            encoder.renumber(part - at * len(part))
