"""Captions to points: word embeddings and a GRU (Vendrov et al., section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.gru import GRU
from models.vocabulary import PADDING


class CaptionEncoder(nn.Module):
    """Read a caption word by word and keep the last state.

    Attributes:
        product: the type in which the GRU multiplies matrices; bfloat16 trains faster.
    """

    def __init__(
        self, words: int, word_dimension: int, dimension: int, word_range: float = 0.1
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, word_dimension, padding_idx=PADDING)
        self.gru = GRU(word_dimension, dimension)
        self.product = torch.float32
        nn.init.uniform_(self.embedding.weight, -word_range, word_range)
        with torch.no_grad():
            self.embedding.weight[PADDING].zero_()

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode padded captions: (B, T) int64 and (B,) int64 on the CPU -> (B, N).

        `lengths` counts the end mark, so every caption has at least one token.
        """
        state: Tensor = self.gru(self.embedding(tokens), lengths, self.product)
        return state
