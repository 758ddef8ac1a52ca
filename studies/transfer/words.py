"""Word similarity: do embeddings of words lie as near to each other as people say?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasse.studies.transfer.evaluation import Encode, correlation
from hasse.studies.transfer.tasks import TransferError

# The names of the files that Faruqui and Dyer (2014) distribute.
FILES = {
    "MEN": "EN-MEN-TR-3k.txt",
    "SimLex-999": "EN-SIMLEX-999.txt",
    "RW": "EN-RW-STANFORD.txt",
    "WS-353": "EN-WS-353-ALL.txt",
}

_LEAST = 4  # pairs that an interval can be computed from


@dataclass(frozen=True, slots=True)
class WordPairs:
    """Pairs of words and how similar people find them."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Similarity:
    """Spearman's correlation with people, x 100, with a 95 % interval, of pairs that are known.

    Fewer than `_LEAST` known pairs have none.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    known: int
    pairs: int


def read_word_pairs(folder: Path) -> list[WordPairs]:
    """Read the lists of word pairs in a folder or below it.

    Raises:
        TransferError: a line is not two words and a number.
    """
    lists = []
    for name, file in FILES.items():
        for path in sorted(folder.rglob(file))[:1]:
            rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
            try:
                scores = np.array([float(row[2]) for row in rows])
                words = [(row[0].lower(), row[1].lower()) for row in rows]
            except (IndexError, ValueError):
                raise TransferError(
                    f"{path} has a line that is not two words and a number"
                ) from None
            first, second = zip(*words, strict=True)
            lists.append(WordPairs(name, first, second, scores))
    return lists


def similarity(pairs: WordPairs, encode: Encode, knows: Callable[[str], bool]) -> Similarity:
    """Compare cosines of words with people's scores, over pairs of which both words are known."""
    known = np.array(
        [knows(a) and knows(b) for a, b in zip(pairs.first, pairs.second, strict=True)], bool
    )
    if known.sum() < _LEAST:
        return Similarity(pairs.name, None, None, None, int(known.sum()), len(known))
    rows = np.flatnonzero(known)
    first, second = (
        _unit(encode([words[row] for row in rows])) for words in (pairs.first, pairs.second)
    )
    value_and_interval = correlation(_ranks((first * second).sum(1)), _ranks(pairs.scores[rows]))
    return Similarity(pairs.name, *value_and_interval, len(rows), len(known))


def _unit(points: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = points.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.maximum(
        np.linalg.norm(wide, axis=1, keepdims=True), 1e-12
    )
    return unit


def _ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return ranks, those of equal values their mean: (n,) -> (n,)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return mean
