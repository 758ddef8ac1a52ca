"""Sentences as points in one order, read by the encoder that reads captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from models.caption_encoder import CaptionEncoder
from models.entailment.pairs import Pair
from models.order import violation
from models.vocabulary import PADDING, Vocabulary, words

Comparison = Literal["order", "symmetric"]

Penalties = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SentenceConfig:
    """What must be known, beside weights and words, to compare sentences.

    Attributes:
        comparison: "order", the violation E(premise, hypothesis), or "symmetric", one minus the
            cosine: the paper's control.
        dimension: N, the dimension of a point; also the width of the GRU.
        word_dimension: the dimension of a word vector.
        word_range: word vectors start uniform between minus and plus this.
        max_words: words of a sentence beyond this many are not read.
        unit: whether points of the order have unit length, as the paper's have. Of two points
            of one length neither is above the other, so the order is learned better without.
    """

    comparison: Comparison = "order"
    dimension: int = 1024
    word_dimension: int = 300
    word_range: float = 0.1
    max_words: int = 100
    unit: bool = False

    def __post_init__(self) -> None:
        """Refuse what no model can have (ValueError)."""
        if self.comparison not in {"order", "symmetric"}:
            raise ValueError(f"comparison is order or symmetric, not '{self.comparison}'")
        if min(self.dimension, self.word_dimension, self.max_words) < 1 or self.word_range <= 0:
            raise ValueError(
                "dimension, word_dimension and max_words are at least 1, word_range is above 0"
            )


class SentenceEmbedding(nn.Module):
    """Points of sentences: without negative coordinates for the order, else of unit length."""

    def __init__(self, config: SentenceConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.captions = CaptionEncoder(
            len(vocabulary), config.word_dimension, config.dimension, config.word_range
        )

    def tokens(self, text: str) -> Tensor:
        """Number the words of a sentence: -> (T,), the end mark included."""
        return torch.tensor(self.vocabulary.encode(text, self.config.max_words))

    def forward(self, tokens: Sequence[Tensor]) -> Tensor:
        """Return the points of numbered sentences, B of any lengths: -> (B, N)."""
        lengths = torch.tensor([len(row) for row in tokens])
        padded = pad_sequence(list(tokens), batch_first=True, padding_value=PADDING)
        device = self.captions.embedding.weight.device
        state: Tensor = self.captions(padded.to(device), lengths)
        if self.config.unit or self.config.comparison == "symmetric":
            state = normalize(state, dim=-1)
        return state if self.config.comparison == "symmetric" else state.abs()

    def compare(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the penalty of pairs of points: (B, N), (B, N) -> (B,); 0 is entailed."""
        if self.config.comparison == "symmetric":
            return 1 - (premises * hypotheses).sum(-1)
        return violation(premises, hypotheses)

    @torch.inference_mode()
    def penalties(self, pairs: Sequence[Pair], batch_size: int = 256) -> Penalties:
        """Return the penalty of each pair: (n,). A sentence is read once however often it comes."""
        number: dict[str, int] = {}
        for pair in pairs:
            number.setdefault(pair.premise, len(number))
            number.setdefault(pair.hypothesis, len(number))
        texts = list(number)
        points = torch.empty(len(texts), self.config.dimension)
        by_length = sorted(range(len(texts)), key=lambda at: len(words(texts[at])))
        for start in range(0, len(texts), batch_size):
            rows = by_length[start : start + batch_size]
            points[rows] = self([self.tokens(texts[at]) for at in rows]).cpu()
        out = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), batch_size):
            block = pairs[start : start + batch_size]
            premises = points[[number[pair.premise] for pair in block]]
            hypotheses = points[[number[pair.hypothesis] for pair in block]]
            out[start : start + batch_size] = self.compare(premises, hypotheses).numpy()
        return out
