"""Captions to points: word embeddings and a GRU (Vendrov et al., section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from models.vocabulary import PADDING


class CaptionEncoder(nn.Module):
    """Read a caption word by word and keep the last state.

    Initialised as the reference: word vectors and input weights uniform in +-0.1, recurrent
    weights orthogonal, biases zero.
    """

    def __init__(self, words: int, word_dimension: int, dimension: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, word_dimension, padding_idx=PADDING)
        self.gru = nn.GRU(word_dimension, dimension, batch_first=True)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        with torch.no_grad():
            self.embedding.weight[PADDING].zero_()
        for name, weight in self.gru.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.uniform_(weight, -0.1, 0.1)
            elif name.startswith("weight_hh"):
                for gate in weight.chunk(3):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.zeros_(weight)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode padded captions: (B, T) int64 and (B,) int64 on the CPU -> (B, N).

        `lengths` counts the end mark, so every caption has at least one token.
        """
        vectors = self.embedding(tokens)  # (B, T, word_dimension)
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)  # (1, B, N)
        state: Tensor = last[0]
        return state
