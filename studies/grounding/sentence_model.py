"""Models of sentences: another text encoder, projected to features of images or to no image.

With Kiela et al. (2018), words have fixed vectors, which one learned map adapts. A unit reads them,
and one more map and an ELU lead from its state to the point. Kiros et al. (2014) have the unit
alone. In a checkpoint each kind of unit is stored under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout, elu, normalize

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.gru import GRU
from hasse.lab.encoders.image_encoder import ImageEncoder
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.encoders.shapes import of_backbone
from hasse.lab.encoders.text_encoder import CaptionEncoder, reverse_words
from hasse.lab.training.inputs import Rows, TrainingInputs
from hasse.models.datasets import Dataset
from hasse.models.embedding_model import Points
from hasse.models.encoders.model_config import MAX_COORDINATES, ModelConfig
from hasse.studies.grounding.lstm import LSTM, BiLSTM
from hasse.studies.grounding.word_sum import WordSum

WordTable = Literal["learned", "fixed"]
ImageMap = Literal["linear", "identity", "none"]
UNITS: Mapping[str, type[nn.Module]] = {
    "gru": GRU,
    "bilstm": BiLSTM,
    "lstm": LSTM,
    "sum": WordSum,
}


class TextUnit(Protocol):
    """A module that reads word vectors one after the other."""

    def __call__(self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = ...) -> Tensor:
        """Return each sequence's state after its last vector; see `GRU.forward`."""
        ...

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = ...,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the largest of each sequence's states in each coordinate; see `GRU.max_pool`."""
        ...

    def renumber(self, order: Tensor) -> None:
        """Give the states a new order, in place; see `GRU.renumber`."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceModelConfig(ModelConfig):
    """The shape of a model of sentences.

    Attributes:
        text_encoder: the unit that reads the words of a caption, one of `UNITS`.
        states: width of the unit where it is not N: one map and an ELU lead from its state to the
            point. 0: the state is the point.
        word_vectors: "learned", or "fixed" ones of a file, which one learned map adapts; then all
            words of the file are known.
        image_map: "linear", from features to points; "identity", where features are the points;
            or "none", of a model that has no points of images. The last has no projection of
            captions either: N is `states`.
        dropout: share of a sentence's state that a training leaves out before it becomes a point.
    """

    text_encoder: str = "gru"
    states: int = 0
    word_vectors: WordTable = "learned"
    image_map: ImageMap = "linear"
    dropout: float = 0.0
    is_packable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        ModelConfig.__post_init__(self)
        for name, choices in (
            ("text_encoder", UNITS),
            ("word_vectors", get_args(WordTable)),
            ("image_map", get_args(ImageMap)),
        ):
            if getattr(self, name) not in choices:
                known = ", ".join(choices)
                raise ValueError(f"{name} is one of {known}, not '{getattr(self, name)}'")
        if not 0 <= self.states <= MAX_COORDINATES:
            raise ValueError(f"states is at least 0 and at most {MAX_COORDINATES:,}")
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout is a share, at least 0 and below 1")
        if self.image_map == "identity" and (self.ensemble > 1 or self.image_pooling != "average"):
            raise ValueError("image_map identity needs ensemble 1 and image_pooling average")
        if self.image_map == "none" and (self.score != "cosine" or self.hubness):
            raise ValueError("image_map none needs the score cosine and hubness 0")

    @property
    def has_free_order(self) -> bool:  # type: ignore[override]
        """Whether coordinates are not those of features."""
        return self.image_map == "linear"

    def caption_encoder(self, words: int, member: int) -> SentenceEncoder:
        """Make a member of the ensemble, for a number of words, with random weights."""
        return SentenceEncoder(self, words, backwards=self.reads_backwards(member))

    def image_encoder(self) -> ImageEncoder | None:
        """Make the encoder of pictures, with random weights; None where there is none."""
        if self.image_map == "none":
            return None
        encoder = of_backbone(self)
        if self.image_map == "linear":
            return encoder
        return FeaturesAsPoints(encoder.backbone, self.dimension)


class SentenceEncoder(CaptionEncoder):
    """Read a sentence by any unit.

    Attributes:
        kind: the name of the unit.
        states: width of the unit where it is not N, or 0.
        head: maps a sentence's state to its point; None: the state is the point.
        word_map: maps word vectors that do not learn; None: they learn themselves.
    """

    def __init__(self, config: SentenceModelConfig, words: int, *, backwards: bool) -> None:
        """Make an encoder with random weights."""
        self.kind, self.states, self.dropout = config.text_encoder, config.states, config.dropout
        states = config.states if config.image_map != "none" else 0
        dimension = config.dimension // config.ensemble
        super().__init__(
            words,
            config.word_dimension,
            dimension,
            config.word_range,
            pooling=config.caption_pooling,
            signed=config.score == "cosine",
            length=config.length,
            backwards=backwards,
        )
        self.head = nn.Linear(states, dimension) if states else None
        if self.head is not None:
            nn.init.kaiming_normal_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        self.word_map: nn.Linear | None = None
        if config.word_vectors == "fixed":
            nn.init.zeros_(self.embedding.weight.requires_grad_(False))
            self.word_map = nn.Linear(config.word_dimension, config.word_dimension, bias=False)
            nn.init.kaiming_normal_(self.word_map.weight, nonlinearity="linear")

    def add_unit(self, inputs: int, states: int) -> None:
        """Make the unit under its own name; its states are the points where it has no width."""
        self.add_module(self.kind, UNITS[self.kind](inputs, self.states or states))

    @property
    def unit(self) -> TextUnit:
        """The unit that reads word vectors."""
        found: TextUnit = getattr(self, self.kind)
        return found

    @property
    def is_packable(self) -> bool:
        """Whether captions are encoded without torch: they are not."""
        return False

    def points_of(self, states: Tensor) -> Tensor:
        """Return the points of sentences from their states: (B, S) -> (B, N)."""
        return super().points_of(states if self.head is None else elu(self.head(states)))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Read padded sentences, as `CaptionEncoder.forward`: (B, T), (B,) -> (B, S)."""
        vectors = self.vectors(reverse_words(tokens, lengths) if self.backwards else tokens)
        if self.pooling == "last":
            states = self.unit(vectors, lengths, self.matmul_dtype)
        else:
            states = self.unit.max_pool(vectors, lengths, self.matmul_dtype, signed=self.signed)
        return dropout(states, self.dropout, self.training)

    def vectors(self, tokens: Tensor) -> Tensor:
        """Return the word vectors that the unit reads: (...,) -> (..., word_dimension)."""
        found: Tensor = self.embedding(tokens)
        return found if self.word_map is None else self.word_map(found)

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give the coordinates a new order, in place: i becomes what order[i] was."""
        unit = self.unit
        if self.head is not None:
            self.head.weight.copy_(self.head.weight[order])
            self.head.bias.copy_(self.head.bias[order])
        elif isinstance(unit, WordSum) and unit.weight is None:
            self.embedding.weight.copy_(self.embedding.weight[:, order])
        else:
            unit.renumber(order)
        if self.length_head is not None:
            self.length_head.weight.copy_(self.length_head.weight[:, order])


class FeaturesAsPoints(ImageEncoder):
    """Features of images as their points, scaled to unit length."""

    def __init__(self, backbone: Backbone, dimension: int) -> None:
        super().__init__(backbone, dimension)
        del self.projection

    def project(self, features: Tensor) -> Tensor:
        """Scale features to unit length: (B, F) -> (B, F)."""
        return normalize(features, dim=-1)


@dataclass(frozen=True, slots=True)
class NoImages:
    """Images without numbers, for a model that learns from captions alone.

    Attributes:
        learns_backbone: true, as there is none to freeze.
    """

    image_ids: NDArray[np.int64]
    learns_backbone: bool = True

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Return no numbers of each image: (B,) -> (B, 0)."""
        return torch.empty(len(rows), 0)

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Return no coordinates."""
        return batch


def captions_alone(collections: tuple[Dataset, Dataset]) -> TrainingInputs:
    """Return the inputs of a training on captions alone."""
    training, validation = (
        (part, NoImages(np.array([image.id for image in part.images]))) for part in collections
    )
    return TrainingInputs(training, validation)


def sentence_encoder(model: OrderEmbedding) -> SentenceEncoder | None:
    """Return the text encoder of a model of sentences; None for an ensemble and other models."""
    first, *more = model.captions.encoders
    return first if isinstance(first, SentenceEncoder) and not more else None


@torch.inference_mode()
def encode_states(model: OrderEmbedding, texts: Sequence[str], batch_size: int = 256) -> Points:
    """Return the states of sentences, for tasks on top of them, in order: (B, S) float32.

    It is the state before the projection where there is one, as Kiela et al. have it, or else the
    point.
    """
    encoder = sentence_encoder(model)
    if encoder is None or not encoder.states:
        return model.encode_captions(texts, batch_size)
    found = np.empty((len(texts), encoder.states), np.float32)
    for start in range(0, len(texts), batch_size):
        tokens, lengths = model.tokens(texts[start : start + batch_size])
        found[start : start + batch_size] = encoder(tokens.to(model.device), lengths).cpu().numpy()
    return found


@torch.inference_mode()
def encode_words(model: OrderEmbedding, words: Sequence[str]) -> Points:
    """Return the mapped vectors of single words where these are fixed, or else their points."""
    encoder = sentence_encoder(model)
    if encoder is None or encoder.word_map is None:
        return model.encode_captions(words)
    numbers = torch.tensor([model.vocabulary.encode(word, 1)[0] for word in words])
    found: Points = encoder.vectors(numbers.to(model.device)).cpu().numpy()
    return found
