"""The lesson of captions from other captions of the same image (Kiela et al., 2018).

A decoder writes one caption from the text encoder's state after the other one. It reads the
encoder's word vectors and is not part of the model.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu, pad

from hasse.lab.encoders.mixed_precision import low_precision_matmul
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.training.config import LARGEST_FACTOR, TrainingConfig
from hasse.lab.training.inputs import ImageInput
from hasse.lab.training.lesson import EncodedBatch, Lesson
from hasse.lab.training.run import TrainingError
from hasse.models.datasets import Dataset
from hasse.models.vocabulary import END, SPECIAL
from hasse.studies.grounding.lstm import LSTM
from hasse.studies.grounding.sentence_model import SentenceEncoder, sentence_encoder

_UNWRITTEN = -1  # class that `cross_entropy` leaves out
_PAIRS = 128  # of captions, measured together


@dataclass(frozen=True, slots=True)
class Perplexity:
    """How well a decoder writes: the number of equally likely words that it chooses from."""

    perplexity: float

    @property
    def quality(self) -> float:
        """The number by which epochs of a training are compared; higher is better."""
        return -self.perplexity

    @property
    def summary(self) -> str:
        """Text of the line of an epoch."""
        return f"perplexity {self.perplexity:.2f}"

    def to_json(self) -> dict[str, float]:
        """Return plain values."""
        return asdict(self)


class CaptionDecoder(nn.Module):
    """An LSTM that writes a caption from a state of the text encoder.

    Attributes:
        classes: (V,), the class of each word that it can write, or -1.
    """

    classes: Tensor

    def __init__(self, encoder: SentenceEncoder, states: int, written: Tensor) -> None:
        """Take the encoder to decode, its width, and the numbers of the words to write."""
        super().__init__()
        words, size = encoder.embedding.weight.shape
        classes = torch.full((words,), _UNWRITTEN)
        classes[written] = torch.arange(len(written))
        self.register_buffer("classes", classes)
        self.begin = nn.Linear(states, states)
        self.unit = LSTM(size, states, peepholes=False)
        self.words = nn.Linear(states, len(written))
        for layer in (self.begin, self.words):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def nats(
        self, encoder: SentenceEncoder, states: Tensor, tokens: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood of captions, (), and the number of their words, ().

        Args:
            states: (B, S), of the captions to read.
            tokens, lengths: the captions to write, (B, T) and (B,).
        """
        dtype = encoder.matmul_dtype
        before = pad(encoder.vectors(tokens)[:, :-1], (0, 0, 1, 0))  # (B, T, D)
        seen, _, owners = self.unit.states(before, lengths, dtype, elu(self.begin(states)))
        # From the order of time to one caption after the other.
        seen = seen[torch.argsort(owners, stable=True)]
        each = torch.arange(tokens.shape[1], device=tokens.device)
        wanted = self.classes[tokens[each < lengths.to(tokens.device)[:, None]]]
        logits = low_precision_matmul(seen, self.words.weight, dtype) + self.words.bias
        loss = cross_entropy(logits, wanted, reduction="sum", ignore_index=_UNWRITTEN)
        return loss, (wanted != _UNWRITTEN).sum()

    def loss(
        self,
        encoder: SentenceEncoder,
        states: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        owners: Tensor,
    ) -> Tensor:
        """Return the sum of `nats` over ordered pairs of captions of one image, ().

        Args:
            states, tokens, lengths: of all captions of a batch.
            owners: (C,), the image of each.
        """
        beside = (owners[:, None] == owners).fill_diagonal_(False)
        read, written = beside.nonzero().T
        if not len(read):
            return states.new_zeros(())
        return self.nats(encoder, states[read], tokens[written], lengths[written.cpu()])[0]

    @torch.inference_mode()
    def perplexity(self, model: OrderEmbedding, dataset: Dataset) -> Perplexity:
        """Measure the first two captions of each image, each written after the other."""
        encoder = _encoder_of(model)
        total = words = 0.0
        paired = [image.captions[:2] for image in dataset.images if len(image.captions) > 1]
        for start in range(0, len(paired), _PAIRS):
            texts = [one.text for pair in paired[start : start + _PAIRS] for one in pair]
            tokens, lengths = model.tokens(texts)
            tokens = tokens.to(model.device)
            other = torch.arange(len(texts), device=tokens.device) ^ 1
            loss, count = self.nats(encoder, encoder(tokens, lengths)[other], tokens, lengths)
            total, words = total + float(loss), words + int(count)
        return Perplexity(math.exp(min(total / max(1.0, words), 700.0)))


def decoder_for(model: OrderEmbedding, dataset: Dataset, least: int) -> CaptionDecoder:
    """Make a decoder of the words that a dataset's captions have at least `least` times."""
    encoder = _encoder_of(model)
    counts = Counter(
        number
        for caption in dataset.captions
        for number in model.vocabulary.encode(caption.text, model.config.max_words)
    )
    words = [
        number for number, count in counts.items() if count >= least and number >= len(SPECIAL)
    ]
    states = encoder.states or model.config.dimension
    return CaptionDecoder(encoder, states, torch.tensor([END, *sorted(words)]))


def _encoder_of(model: OrderEmbedding) -> SentenceEncoder:
    """Return the text encoder of a model (TrainingError: it is not one of sentences)."""
    if (encoder := sentence_encoder(model)) is None:
        raise TrainingError("decoding needs ensemble 1 and a model of 'hasse study grounding'")
    return encoder


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """The options of `DecodingLesson`: the weight of its loss."""

    decoding: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible options (ValueError)."""
        if not 0 <= self.decoding <= LARGEST_FACTOR:
            raise ValueError(f"decoding is at least 0 and at most {LARGEST_FACTOR:g}")


class DecodingLesson(Lesson):
    """Writes each caption of an image from the state after each other one."""

    options: DecodingOptions

    def __init__(self, options: DecodingOptions) -> None:
        """Take the weight of the loss."""
        super().__init__()
        self.options = options

    def prepare(
        self, config: TrainingConfig, dataset: Dataset, images: ImageInput, model: OrderEmbedding
    ) -> None:
        """Make the decoder.

        Raises:
            TrainingError: the model is an ensemble, or a batch has one caption of each image.
        """
        if config.model.ensemble > 1 or config.captions_per_image < 2:
            raise TrainingError("decoding needs ensemble 1 and captions_per_image of at least 2")
        self.decoder = decoder_for(model, dataset, config.min_word_count)

    def loss(self, model: OrderEmbedding, batch: EncodedBatch, *read: Tensor) -> Tensor:
        """Return the decoder's weighted loss for each caption, ()."""
        encoder, (states,) = _encoder_of(model), batch.states
        total = self.decoder.loss(encoder, states, batch.tokens, batch.lengths, batch.owners)
        return self.options.decoding * total / len(batch.owners)

    def measure(self, model: OrderEmbedding, dataset: Dataset) -> Perplexity | None:
        """Return the perplexity of captions, each written after another of the same image.

        A model with images is measured by retrieval.
        """
        return None if model.has_images else self.decoder.perplexity(model, dataset)
