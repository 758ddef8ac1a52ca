"""Embeddings of sentences and words by several models side by side, for tasks on top of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.models.checkpoints import named_models
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.service.core.device import pick_device
from hasse.studies.grounding.sentence_model import encode_states, encode_words
from hasse.studies.grounding.word_vectors import WordVectors


@dataclass(frozen=True, slots=True)
class SentenceEncoder:
    """Embeddings of several models and the mean of word vectors, concatenated.

    Attributes:
        names: of the models and of the file of vectors.
    """

    names: list[str]
    models: Sequence[Checkpoint]
    vectors: WordVectors | None

    @classmethod
    def of(cls, models: Sequence[Path], vectors: Path | None, device: str) -> Self:
        """Load models and word vectors.

        Raises:
            CheckpointError, TransferError: one cannot be used.
        """
        place = pick_device(device)
        loaded = [
            learned_model.load(named_models.find(model), place, with_pictures=False)
            for model in models
        ]
        names = [one.name for one in loaded] + ([] if vectors is None else [vectors.name])
        return cls(names, loaded, None if vectors is None else WordVectors.read(vectors))

    def encode(self, texts: Sequence[str]) -> Points:
        """Return the embeddings of texts; each of several has unit length: (B, sum of N).

        A model that projects the state of its text encoder gives that state. The part of a model
        that knows no word of a text is zero there.
        """
        return self._side_by_side(texts, [_of_sentences(model, texts) for model in self.models])

    def encode_words(self, words: Sequence[str]) -> Points:
        """Return the embeddings of single words, likewise.

        A model with fixed word vectors gives those, as it maps them.
        """
        return self._side_by_side(words, [_of_words(model, words) for model in self.models])

    def _side_by_side(self, texts: Sequence[str], parts: list[Points]) -> Points:
        for model, part in zip(self.models, parts, strict=True):
            part[[not model.vocabulary.knows(text) for text in texts]] = 0
        if self.vectors is not None:
            parts.append(self.vectors.encode(texts))
        if len(parts) == 1:
            return parts[0]
        lengths = [np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
        each = [part / np.maximum(long, 1e-12) for part, long in zip(parts, lengths, strict=True)]
        return np.concatenate(each, axis=1)

    def knows(self, text: str) -> bool:
        """Tell whether any of them knows a word of a text."""
        has_vector = self.vectors is not None and self.vectors.knows(text)
        return has_vector or any(model.vocabulary.knows(text) for model in self.models)


def _of_sentences(model: Checkpoint, texts: Sequence[str]) -> Points:
    network = model.model
    if isinstance(network, OrderEmbedding):
        return encode_states(network, texts)
    return network.encode_captions(texts)


def _of_words(model: Checkpoint, words: Sequence[str]) -> Points:
    network = model.model
    if isinstance(network, OrderEmbedding):
        return encode_words(network, words)
    return network.encode_captions(words)
