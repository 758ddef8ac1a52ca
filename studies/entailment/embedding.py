"""Sentences as points in one order, read by the encoder that reads captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from hasse.lab.encoders.text_encoder import CaptionEncoder, encode_captions, pad_captions
from hasse.lab.kernels.violations import violation
from hasse.models.encoders.model_config import MAX_COORDINATES, MAX_WORD_RANGE, CaptionPooling
from hasse.models.encoders.text_inference import Length
from hasse.models.vocabulary import Vocabulary
from hasse.studies.entailment.corpus import SentencePair
from hasse.studies.labelled_pairs import Penalties

Comparison = Literal["order", "symmetric"]


@dataclass(frozen=True, slots=True)
class SentenceConfig:
    """Shape of a sentence model, beside its weights and words.

    Attributes:
        comparison: "order", the violation E(premise, hypothesis), or "symmetric", one minus the
            cosine: the paper's control.
        dimension: N, the dimension of a point; also the width of the GRU.
        word_dimension: the dimension of a word vector.
        word_range: word vectors start uniform between minus and plus this.
        max_words: words of a sentence beyond this many are not read.
        pooling: of a sentence's states, "last" is the paper's; "max" keeps the largest of all.
        length: of points of the order; the paper's have length "unit".
    """

    comparison: Comparison = "order"
    dimension: int = 1024
    word_dimension: int = 300
    word_range: float = 0.1
    max_words: int = 100
    pooling: CaptionPooling = "last"
    length: Length = "free"

    def __post_init__(self) -> None:
        """Refuse values that no model can have (ValueError)."""
        if self.comparison not in {"order", "symmetric"}:
            raise ValueError(f"comparison is order or symmetric, not '{self.comparison}'")
        if min(self.dimension, self.word_dimension, self.max_words) < 1:
            raise ValueError("dimension, word_dimension and max_words are at least 1")
        if max(self.dimension, self.word_dimension) > MAX_COORDINATES:
            raise ValueError(f"dimension and word_dimension are at most {MAX_COORDINATES:,}")
        if not 0 < self.word_range <= MAX_WORD_RANGE:
            raise ValueError(f"word_range is above 0 and at most {MAX_WORD_RANGE}")
        if self.pooling not in get_args(CaptionPooling) or self.length not in get_args(Length):
            raise ValueError("pooling is last or max, length is unit, learned or free")


class SentenceEmbedding(nn.Module):
    """Points of sentences: without negative coordinates for the order, else of unit length."""

    def __init__(self, config: SentenceConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        signed = config.comparison == "symmetric"
        self.captions = CaptionEncoder(
            len(vocabulary),
            config.word_dimension,
            config.dimension,
            config.word_range,
            pooling=config.pooling,
            signed=signed,
            length="unit" if signed else config.length,
        )

    def tokens(self, text: str) -> Tensor:
        """Number the words of a sentence: -> (T,), the end mark included."""
        return torch.tensor(self.vocabulary.encode(text, self.config.max_words))

    def forward(self, tokens: Sequence[Tensor]) -> Tensor:
        """Return the points of numbered sentences, B of any lengths: -> (B, N)."""
        together, lengths = pad_captions(tokens)
        device = self.captions.embedding.weight.device
        return self.captions.points(together.to(device), lengths)

    def compare(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the penalty of pairs of points: (B, N), (B, N) -> (B,); 0 is entailed."""
        if self.config.comparison == "symmetric":
            return 1 - (premises * hypotheses).sum(-1)
        return violation(premises, hypotheses)

    @torch.inference_mode()
    def penalties(self, pairs: Sequence[SentencePair], batch_size: int = 256) -> Penalties:
        """Return the penalty of each pair: (n,). A sentence is read once however often it comes."""
        number: dict[str, int] = {}
        for pair in pairs:
            number.setdefault(pair.premise, len(number))
            number.setdefault(pair.hypothesis, len(number))
        numbered = [self.vocabulary.encode(text, self.config.max_words) for text in number]
        points = torch.from_numpy(encode_captions(self.captions, numbered, batch_size))
        out = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), batch_size):
            block = pairs[start : start + batch_size]
            premises = points[[number[pair.premise] for pair in block]]
            hypotheses = points[[number[pair.hypothesis] for pair in block]]
            out[start : start + batch_size] = self.compare(premises, hypotheses).numpy()
        return out
