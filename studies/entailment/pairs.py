"""Pairs of sentences: may the second be inferred from the first?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.models.datasets.source import read_text
from hasse.models.errors import HasseError


class EntailmentError(HasseError):
    """Pairs of entailment, or a start, that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A premise, a hypothesis, and whether the premise entails it."""

    premise: str
    hypothesis: str
    entailed: bool


@dataclass(frozen=True, slots=True)
class Corpus:
    """Labelled pairs, split.

    Attributes:
        name: what it is called in tables.
        dropped: pairs left out because their annotators did not agree on a label.
        note: how the split was made, if not by the corpus itself.
    """

    name: str
    train: tuple[SentencePair, ...]
    validation: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    dropped: int = 0
    note: str = ""


def labels(pairs: Sequence[SentencePair]) -> NDArray[np.bool_]:
    """Return which pairs are entailed: (n,)."""
    return np.array([pair.entailed for pair in pairs], dtype=np.bool_)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; a sentence may hold what Unicode calls a line's end.

    Raises:
        EntailmentError: there is no such file, it is not text, or it is empty.
    """
    return read_text(path, EntailmentError).split("\n")
