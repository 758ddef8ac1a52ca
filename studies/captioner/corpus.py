"""Captions of a dataset as a language model learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.datasets import Dataset, DatasetError
from hasse.models.embedding_model import EmbeddingModel
from hasse.models.score import Score
from hasse.models.vocabulary import Vocabulary
from hasse.studies.captioner.captioner import unit
from hasse.studies.captioner.structure import structure
from hasse.studies.wordnet.lexicon import Lexicon


@dataclass(frozen=True, slots=True)
class Sentence:
    """A caption: the place of its picture in the dataset, its words, and their parts of speech."""

    picture: int
    words: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Captions in numbers.

    Attributes:
        words, tags: of each caption, of one length.
        points: (C, N) of the captions, of unit length.
        picture: (C,) that each caption is of; captions of a picture stand together.
    """

    words: Sequence[Tensor]
    tags: Sequence[Tensor]
    points: Tensor
    picture: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)


def sentences(
    dataset: Dataset,
    lexicon: Lexicon,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[Sentence]:
    """Return the captions of a dataset with their parts of speech.

    Raises:
        DatasetError: there are none of words in Latin letters.
    """
    collected = []
    for at, image in enumerate(dataset.images):
        for caption in image.captions:
            words, tags = structure(caption.text, lexicon)
            if words:
                collected.append(Sentence(at, words, tags))
        report(at + 1, len(dataset))
    if not collected:
        raise DatasetError(
            f"these images of the dataset '{dataset.name}' have no captions in English, so there "
            f"is nothing to learn to write from: import captions too, or name another dataset"
        )
    return collected


def numbered(
    found: Sequence[Sentence],
    vocabulary: Vocabulary,
    tags: Sequence[str],
    encoder: EmbeddingModel,
) -> Corpus:
    """Put captions into the numbers of words and tags, and encode them."""
    number_of = {tag: number for number, tag in enumerate(tags, start=1)}
    texts = [" ".join(sentence.words) for sentence in found]
    # A word that is split, as "dog's" may be, is unknown: words and tags have one length.
    words = [
        torch.tensor([vocabulary.encode(word, 1)[0] for word in sentence.words])
        for sentence in found
    ]
    return Corpus(
        words,
        [torch.tensor([number_of.get(tag, 0) for tag in sentence.tags]) for sentence in found],
        unit(encoder.encode_captions(texts)),
        np.array([sentence.picture for sentence in found]),
    )


def join_by_picture(corpus: Corpus, score: Score) -> Tensor:
    """Return the joint point of the captions of each picture: (I, N), of unit length."""
    starts = np.flatnonzero(np.diff(corpus.picture, prepend=-1))
    points = corpus.points.numpy()
    if score == "cosine":
        return unit(np.add.reduceat(points, starts))
    joined = np.maximum if score == "order" else np.minimum
    return unit(joined.reduceat(points, starts))
