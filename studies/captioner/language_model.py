"""The structure-content neural language model (Kiros et al., sections 2.4 and 2.5).

It predicts word n of a caption from three things: the words before it, the parts of speech of it
and of the words after it (structure), and a point u of the embedding space (content). With K, G and
F as in the paper, and f the factors:

    E = (W^fk)^T W^fv                                 K x V, word representations
    r = sum_i C^(i) E(:, w_(n-i))                     K, i = 1 .. context
    u^ = relu(sum_j T^(j) t_(n+j) + T^(u) u + b)      G, j = 0 .. ahead (equation 11)
    f = (W^fk r) * (W^fd u^)                          F
    P(w_n = w) = softmax(f . W^fv(:, w) + b_w)

r occurs only in W^fk r, which is sum_i (W^fk C^(i) (W^fk)^T) W^fv(:, w_(n-i)). The matrices in
brackets, F x F, are computed once for a batch, so each word costs little.

Shapes: B captions of at most T words, V words, N coordinates of a point.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding, pad

from hasse.models.vocabulary import PADDING, SPECIAL

NO_TAG = 0  # after the last word


@dataclass(frozen=True, slots=True)
class LanguageModelConfig:
    """The sizes of a model, by default the paper's, which does not state `context` and `ahead`.

    Attributes:
        word_dimension: K, of a word's representation and of a part of speech.
        slices: G, of the structure and content together.
        factors: F.
        context: number of words before the predicted one.
        ahead: number of parts of speech after that of the predicted word.
        structure, content: whether parts of speech, and a point, are inputs. A model without one
            of them is a control to compare with.
    """

    word_dimension: int = 300
    slices: int = 300
    factors: int = 100
    context: int = 5
    ahead: int = 3
    structure: bool = True
    content: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that are too small (ValueError)."""
        if min(self.word_dimension, self.slices, self.factors, self.context) < 1 or self.ahead < 0:
            raise ValueError("the sizes of a language model are at least 1, and ahead at least 0")


class LanguageModel(nn.Module):
    """The model of the module's docstring, with random weights."""

    def __init__(self, config: LanguageModelConfig, words: int, tags: int, dimension: int) -> None:
        """Make a model for numbers of words (special ones included), tags and coordinates."""
        super().__init__()
        self.config = config
        k, g, f = config.word_dimension, config.slices, config.factors
        self.words = nn.Parameter(torch.randn(words, f) * f**-0.5)  # W^fv, transposed
        self.word_bias = nn.Parameter(torch.zeros(words))
        self.word_factors = nn.Parameter(torch.randn(f, k) * k**-0.5)  # W^fk
        self.slice_factors = nn.Parameter(torch.randn(f, g) * 2 * g**-0.5)  # W^fd
        self.context = nn.Parameter(torch.randn(config.context, k, k) * k**-0.5)  # C
        self.tags = nn.Parameter(torch.randn(tags, k))  # t
        self.structure = nn.Parameter(torch.randn(1 + config.ahead, g, k) * k**-0.5)  # T
        self.content = nn.Parameter(torch.randn(g, dimension))  # T^(u); points have unit length
        # Without other inputs, a slice of 0 would never learn.
        has_inputs = config.structure or config.content
        self.bias = nn.Parameter(torch.zeros(g) if has_inputs else torch.ones(g))

    def history(self) -> Tensor:
        """Return the factors of each word at each distance before another: (context, V, F)."""
        between = self.word_factors @ self.context @ self.word_factors.T  # (context, F, F)
        return self.words @ between.transpose(1, 2)

    def conditions(self, tags: Tensor, points: Tensor, drop: float = 0.0) -> Tensor:
        """Return W^fd u^ of each word: (B, T) tags, (B, N) -> (B, T, F)."""
        length = tags.shape[1]
        slices = self.bias.expand(*tags.shape, -1)
        if self.config.structure:
            ahead = pad(tags, (0, self.config.ahead), value=NO_TAG)
            tables = self.tags @ self.structure.transpose(1, 2)  # (1 + ahead, tags, G)
            for at, table in enumerate(tables):
                slices = slices + embedding(ahead[:, at : at + length], table)
        if self.config.content:
            slices = slices + (points @ self.content.T)[:, None]
        return dropout(slices.relu(), drop, drop > 0) @ self.slice_factors.T

    def scores(self, factors: Tensor) -> Tensor:
        """Return the logits of all words: (..., F) -> (..., V)."""
        return factors @ self.words.T + self.word_bias

    def forward(self, words: Tensor, tags: Tensor, points: Tensor, drop: float = 0.0) -> Tensor:
        """Return the logits of each word: (B, T), (B, T), (B, N) -> (B, T, V)."""
        before = pad(words, (self.config.context, 0), value=PADDING)
        length, reach = words.shape[1], self.config.context
        factors = torch.zeros(1)
        for distance, table in enumerate(self.history(), start=1):
            start = reach - distance
            factors = factors + embedding(before[:, start : start + length], table)
        return self.scores(dropout(factors, drop, drop > 0) * self.conditions(tags, points, drop))

    @torch.inference_mode()
    def decode(self, tags: Tensor, points: Tensor) -> Tensor:
        """Return the likeliest words for sequences of tags: (B, T), (B, N) -> (B, T).

        Each word is the likeliest after the words before it. A tag `NO_TAG` gives no word.
        """
        history, conditions = self.history(), self.conditions(tags, points)
        decoded = torch.full(tags.shape, PADDING)
        for at in range(tags.shape[1]):
            factors = torch.zeros(1)
            for distance, table in enumerate(history, start=1):
                words = (
                    decoded[:, at - distance] if distance <= at else decoded.new_zeros(len(tags))
                )
                factors = factors + table[words]
            scores = self.scores(factors * conditions[:, at])
            scores[:, : len(SPECIAL)] = -torch.inf
            decoded[:, at] = torch.where(tags[:, at] == NO_TAG, PADDING, scores.argmax(1))
        return decoded
