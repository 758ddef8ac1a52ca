"""Captions to points: word vectors, and a GRU (Vendrov et al., section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from hasse.lab.encoders.gru import GRU
from hasse.models.encoders.model_config import CaptionPooling
from hasse.models.encoders.text_inference import (
    Captions,
    Length,
    PackedTextEncoder,
    Points,
    ReadingOptions,
    TextInference,
    encode_in_batches,
)
from hasse.models.vocabulary import PADDING


def pad_captions(captions: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad captions, as word numbers, to one length: -> (B, T), and their lengths (B,)."""
    lengths = torch.tensor([len(caption) for caption in captions])
    return pad_sequence(list(captions), batch_first=True, padding_value=PADDING), lengths


def reverse_words(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the words of captions, except the end mark: (B, T), (B,) -> (B, T)."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    last = lengths.to(tokens.device)[:, None] - 2
    return tokens.gather(1, torch.where(positions <= last, last - positions, positions))


class CaptionEncoder(nn.Module):
    """Reads captions word by word and pools the states of a GRU.

    Attributes:
        dimension: N, the coordinates of a point.
        pooling: "last" state, as in the paper, or "max": the maximum of all states in each
            coordinate, so that later words do not hide earlier ones.
        signed: whether points keep their signs.
        length: of a point: "unit"; "learned", between 0 and 1; or "free", that of the states. Two
            points of the same length never precede each other, so captions follow from captions
            only if the general ones are shorter.
        backwards: whether words are read from the last to the first.
        matmul_dtype: the type of the GRU's matrix products; bfloat16 trains faster.
    """

    def __init__(
        self,
        words: int,
        word_dimension: int,
        dimension: int,
        word_range: float = 0.1,
        *,
        pooling: CaptionPooling = "last",
        signed: bool = False,
        length: Length = "unit",
        backwards: bool = False,
    ) -> None:
        """Make an encoder with random weights."""
        super().__init__()
        self.dimension = dimension
        self.pooling = pooling
        self.signed = signed
        self.length = length
        self.backwards = backwards
        self.embedding = nn.Embedding(words, word_dimension, padding_idx=PADDING)
        self.add_unit(word_dimension, dimension)
        self.matmul_dtype = torch.float32
        nn.init.uniform_(self.embedding.weight, -word_range, word_range)
        with torch.no_grad():
            self.embedding.weight[PADDING].zero_()
        self.length_head = nn.Linear(dimension, 1) if length == "learned" else None
        if self.length_head is not None:
            nn.init.zeros_(self.length_head.weight)
            nn.init.zeros_(self.length_head.bias)

    def add_unit(self, inputs: int, states: int) -> None:
        """Add the unit that reads word vectors, with random weights."""
        self.gru = GRU(inputs, states)

    @property
    def encoders(self) -> tuple[CaptionEncoder, ...]:
        """This encoder alone, as the only member of an ensemble."""
        return (self,)

    def points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the points of padded captions: (B, T), (B,), as in `forward`, -> (B, N)."""
        return self.points_of(self(tokens, lengths))

    def points_of(self, states: Tensor) -> Tensor:
        """Return the points of captions from their pooled states: (B, N) -> (B, N)."""
        encoded = states if self.signed else states.abs()
        if self.length == "free":
            return encoded
        unit = normalize(encoded, dim=-1)
        return unit if self.length_head is None else unit * self.length_head(encoded).sigmoid()

    @property
    def is_packable(self) -> bool:
        """Whether `packed_encoder` computes the same function: on a CPU."""
        return self.embedding.weight.device.type == "cpu"

    def packed_encoder(self, *, halves: bool | None = None) -> PackedTextEncoder:
        """Return an encoder with the current weights, without torch."""
        weights = {name: value.numpy().copy() for name, value in self.state_dict().items()}
        reading = ReadingOptions(self.pooling, self.signed, self.length, self.backwards)
        return PackedTextEncoder(weights, reading, halves=halves)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Permute the coordinates in place: new coordinate i is old coordinate order[i]."""
        self.gru.renumber(order)
        if self.length_head is not None:
            self.length_head.weight.copy_(self.length_head.weight[:, order])

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Read padded captions: (B, T) int64 and (B,) int64, as in `GRU.forward`, -> (B, N).

        `lengths` counts the end mark, so every caption has at least one token.
        """
        vectors = self.embedding(reverse_words(tokens, lengths) if self.backwards else tokens)
        if self.pooling == "last":
            last: Tensor = self.gru(vectors, lengths, self.matmul_dtype)
            return last
        return self.gru.max_pool(vectors, lengths, self.matmul_dtype, signed=self.signed)


class Ensemble(nn.Module):
    """Encoders of equal parts of the coordinates; see `ModelConfig.ensemble`.

    Attributes:
        encoders: the members, in the order of the coordinates.
    """

    def __init__(self, encoders: Sequence[CaptionEncoder]) -> None:
        super().__init__()
        self.encoders = tuple(encoders)
        for at, encoder in enumerate(encoders):
            self.add_module(str(at), encoder)

    @property
    def matmul_dtype(self) -> torch.dtype:
        """The type of the members' matrix products."""
        return self.encoders[0].matmul_dtype

    @matmul_dtype.setter
    def matmul_dtype(self, dtype: torch.dtype) -> None:
        for encoder in self.encoders:
            encoder.matmul_dtype = dtype

    def points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the points of padded captions, as `CaptionEncoder.points`: (B, T), (B,), (B, N).

        All members' parts have the same length; the whole point has that of one member's point.
        """
        parts = [encoder.points(tokens, lengths) for encoder in self.encoders]
        return torch.cat(parts, -1) / math.sqrt(len(parts))

    def renumber(self, order: Tensor) -> None:
        """Permute the coordinates in place, within each member."""
        parts = order.reshape(len(self.encoders), -1)
        for at, (encoder, part) in enumerate(zip(self.encoders, parts, strict=True)):
            encoder.renumber(part - at * len(part))


def text_inference(encoder: CaptionEncoder | Ensemble) -> TextInference | None:
    """Return an encoder with the current weights, without torch; None if there is none."""
    members = encoder.encoders
    if not all(member.is_packable for member in members):
        return None
    return TextInference([member.packed_encoder() for member in members])


@torch.inference_mode()
def encode_captions(
    encoder: CaptionEncoder | Ensemble,
    captions: Sequence[Sequence[int]],
    batch_size: int,
) -> Points:
    """Return the points of captions, as word numbers: -> (B, N) float32."""
    if (inference := text_inference(encoder)) is not None:
        return inference.points(captions, batch_size)
    device = encoder.encoders[0].embedding.weight.device
    size = sum(member.dimension for member in encoder.encoders)

    def encode(batch: Captions, _: object) -> Points:
        tokens, lengths = pad_captions([torch.tensor(caption) for caption in batch])
        points: Points = encoder.points(tokens.to(device), lengths).cpu().numpy()
        return points

    return encode_in_batches(encode, captions, size, batch_size, 1)
