"""Captions as the sum of their words: the linear encoder of Kiros et al. (2014), section 3.2.

"a blue car" is "a" + "blue" + "car", so words can be added to and taken from a picture. The end
mark says nothing and is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hasse.lab.encoders.mixed_precision import low_precision_matmul


class WordSum(nn.Module):
    """Add word vectors, through one linear map where they have another size than points."""

    def __init__(self, inputs: int, states: int) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = None
        if inputs != states:
            self.weight = nn.Parameter(torch.empty(states, inputs))
            nn.init.xavier_uniform_(self.weight)

    def forward(
        self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return the sum of each sequence's vectors: (B, T, inputs), (B,) -> (B, states)."""
        words = self._mapped(vectors, matmul_dtype)
        return words.masked_fill(~_is_word(vectors, lengths), 0).sum(1)

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = torch.float32,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the largest of each sequence's vectors in each coordinate; zeros for no word."""
        words = self._mapped(vectors, matmul_dtype)
        is_word = _is_word(vectors, lengths)
        pooled = (words if signed else words.abs()).masked_fill(~is_word, -torch.inf).amax(1)
        return pooled.masked_fill(~is_word.any(1), 0)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place; without a map they are those of words."""
        if self.weight is not None:
            self.weight.copy_(self.weight[order])

    def _mapped(self, vectors: Tensor, matmul_dtype: torch.dtype) -> Tensor:
        if self.weight is None:
            return vectors
        return low_precision_matmul(vectors, self.weight, matmul_dtype)


def _is_word(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Return which vectors are of words, not of padding or the end mark: (B, T, 1)."""
    each = torch.arange(vectors.shape[1], device=vectors.device)
    return (each < lengths.to(vectors.device)[:, None] - 1)[..., None]
