"""A trigram model with Kneser-Ney smoothing: how well a text reads as a caption.

    P(c | a, b) = (max(0, n(abc) - D) + D n(ab.) P(c | b)) / n(ab)

n(ab.) is the number of words that follow a b. The bigram below it counts contexts instead of
occurrences, and so does the unigram; below that, all words are equally likely (Kneser and Ney,
1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.models.vocabulary import END, PADDING

DISCOUNT = 0.75
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """Counts of n-grams, and of their contexts: the n-grams without their last word.

    The number of an n-gram is that of its context, times V, plus the number of its last word.
    """

    grams: Counts
    counts: Counts
    contexts: Counts
    totals: Counts
    followers: Counts

    @classmethod
    def of(cls, grams: Counts, counts: Counts, words: int) -> Table:
        """Make a table of rising n-grams and their counts."""
        contexts, first = np.unique(grams // words, return_index=True)
        followers = np.diff(first, append=len(grams))
        return cls(grams, counts, contexts, np.add.reduceat(counts, first), followers)

    def probability(self, grams: Counts, words: int, below: Floats) -> Floats:
        """Return P of n-grams (M,); `below` are the probabilities of the lower order."""
        count = _look_up(self.grams, self.counts, grams)
        total = _look_up(self.contexts, self.totals, grams // words)
        followers = _look_up(self.contexts, self.followers, grams // words)
        divisor = np.maximum(total, 1)
        smoothed = (
            np.maximum(count - DISCOUNT, 0) / divisor + DISCOUNT * followers / divisor * below
        )
        return np.where(total > 0, smoothed, below)


class Trigrams:
    """The model, on texts as word numbers below `words`. Texts begin and end with marks."""

    def __init__(self, grams: Counts, counts: Counts, words: int) -> None:
        """Make a model from distinct trigrams (M,), rising, and their counts (M,)."""
        self.grams, self.counts, self._words = grams, counts, words
        self._trigrams = Table.of(grams, counts, words)
        pairs, counts = np.unique(grams % words**2, return_counts=True)
        self._bigrams = Table.of(pairs, counts, words)
        singles, counts = np.unique(pairs % words, return_counts=True)
        self._unigrams = Table.of(singles, counts, words)

    @classmethod
    def count(cls, texts: Iterable[Sequence[int]], words: int) -> Trigrams:
        """Count the trigrams of texts."""
        grams_of_all = np.concatenate([_trigrams(text, words) for text in texts])
        grams, counts = np.unique(grams_of_all, return_counts=True)
        return cls(grams, counts, words)

    def probability(self, grams: Counts) -> Floats:
        """Return P of the last word of trigrams (M,) after the first two."""
        words = self._words
        uniform = np.full(len(grams), 1 / words)
        single = self._unigrams.probability(grams % words, words, uniform)
        pair = self._bigrams.probability(grams % words**2, words, single)
        return self._trigrams.probability(grams, words, pair)

    def fluency(self, text: Sequence[int]) -> tuple[float, float]:
        """Return the mean and the least log-probability of the words of a text and its end."""
        log_probability = np.log(self.probability(_trigrams(text, self._words)))
        return float(log_probability.mean()), float(log_probability.min())


def _trigrams(text: Sequence[int], words: int) -> Counts:
    marked = np.array([PADDING, PADDING, *text, END], dtype=np.int64)
    return np.asarray((marked[:-2] * words + marked[1:-1]) * words + marked[2:])


def _look_up(keys: Counts, values: Counts, queries: Counts) -> Counts:
    """Return the values of rising keys, 0 where a key is missing."""
    at = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[at] == queries, values[at], 0)
