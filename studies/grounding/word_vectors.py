"""Word vectors in a file of text, and sentences as the mean of their words' vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.lesson import Lesson
from hasse.models.errors import HasseError
from hasse.models.vocabulary import Vocabulary, words
from hasse.studies.grounding.sentence_model import SentenceModelConfig


class WordVectorsError(HasseError):
    """A file of word vectors that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Vectors by word, of one dimension."""

    rows: dict[str, int]
    vectors: NDArray[np.float32]  # (V, D)

    @classmethod
    def read(cls, path: Path, wanted: Container[str] | None = None) -> Self:
        """Read a file with a word and its numbers on each line, with or without a header.

        Marks and whatever else `words` finds in no text are left out. With `wanted`, only those
        words are kept.

        Raises:
            WordVectorsError: there is no such file, or its lines are not all of one length.
        """
        rows: dict[str, int] = {}
        vectors: list[NDArray[np.float32]] = []
        try:
            with path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, start=1):
                    word, _, numbers = line.rstrip().partition(" ")
                    if number == 1 and numbers.count(" ") == 0:  # word2vec's "words dimension"
                        continue
                    if word in rows or (wanted is not None and word not in wanted):
                        continue
                    if words(word) != [word]:
                        continue
                    vector = np.array(numbers.split(), np.float32)
                    if vectors and len(vector) != len(vectors[0]):
                        raise WordVectorsError(
                            f"{path}, line {number} has {len(vector)} numbers instead of "
                            f"{len(vectors[0])}: the file is not whole; get it again"
                        )
                    rows[word] = len(vectors)
                    vectors.append(vector)
        except (OSError, ValueError) as error:
            raise WordVectorsError(
                f"{path} cannot be read as word vectors ({error}): each line is a word and its "
                f"numbers"
            ) from error
        if not vectors:
            raise WordVectorsError(f"{path} has no vector of any wanted word: name another file")
        read = cls(rows, np.stack(vectors))
        if not np.isfinite(read.vectors).all():
            raise WordVectorsError(f"{path} has vectors that are not finite numbers: mend it")
        return read

    def fingerprint(self) -> str:
        """Return what distinguishes these vectors from others."""
        digest = hashlib.sha256(" ".join(self.rows).encode())
        digest.update(self.vectors.data)
        return digest.hexdigest()[:12]

    def fill(self, table: Tensor, vocabulary: Vocabulary) -> None:
        """Put the vectors of known words into a table (V, D), which keeps its other rows."""
        known = [word for word in vocabulary.words if word in self.rows]
        numbers = [vocabulary.encode(word, 1)[0] for word in known]
        found = torch.from_numpy(self.vectors[[self.rows[word] for word in known]])
        with torch.no_grad():
            table[numbers] = found.to(table)

    def knows(self, text: str) -> bool:
        """Tell whether any word of a text has a vector."""
        return any(word in self.rows for word in words(text))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean of the vectors of each text's words; zeros where there is none."""
        means = np.zeros((len(texts), self.vectors.shape[1]), np.float32)
        for at, text in enumerate(texts):
            known = [self.rows[word] for word in words(text) if word in self.rows]
            if known:
                means[at] = self.vectors[known].mean(0)
        return means


class WordVectorLesson(Lesson):
    """Starts word vectors from those of a file, where they stay if the model's are fixed."""

    def __init__(self, vectors: WordVectors) -> None:
        """Take the vectors of the file."""
        super().__init__()
        self._vectors = vectors

    def fingerprint(self) -> Any:
        """Return what distinguishes the vectors from others."""
        return self._vectors.fingerprint()

    def vocabulary(self, config: TrainingConfig) -> Vocabulary | None:
        """Return all words of the file where vectors are fixed, or None."""
        shape = config.model
        fixed = isinstance(shape, SentenceModelConfig) and shape.word_vectors == "fixed"
        return Vocabulary(tuple(self._vectors.rows)) if fixed else None

    def begin(self, model: OrderEmbedding) -> None:
        """Put the vectors of known words into the model."""
        for encoder in model.captions.encoders:
            self._vectors.fill(encoder.embedding.weight, model.vocabulary)
