"""Order of captions of a picture: likely true and specific ones first, then by violation.

Short texts violate least: "person" is true of most pictures, but tells nothing about this one. So
captions with a probability of 0.5 or more come first, and each further word of a caption lowers its
sort key. Only the first few words count, so that among whole sentences the violation decides. In
captions that are almost certainly true all words count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.calibration import Floats, Shift, further_words
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.verdict import SHOWS

DEPTH = 1024  # captions that may come first: those with the smallest violations
_MAX_WORDS = 5  # further words that count
_PER_WORD = 0.02  # subtracted from the violation for each further word that counts
# From this probability on, all words of a text count, unless it only names things.
_SURE = 0.95
_FIRST_DEPTH, _PER_HIT = 128, 4  # captions of the first search, which is mostly enough
_CACHE_LIMIT = 100_000  # texts


class _TextWeight(NamedTuple):
    shift: Shift
    further: int


class CaptionOrder:
    """Sorts captions: likely true and specific ones first.

    Args:
        checkpoint: the model; its calibration gives the probabilities.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._calibration = checkpoint.calibration.image
        self._knows = checkpoint.vocabulary.knows
        self._texts: dict[str, _TextWeight | None] = {}

    def keys(self, texts: Sequence[str], violations: Points) -> Floats:
        """Return the sort keys of captions, smallest first: (C,), infinite for unlikely captions.

        A caption without a word that the model knows is unlikely. Without a calibration all are.
        """
        keys = np.full(len(texts), np.inf)
        if self._calibration is None:
            return keys
        if len(self._texts) > _CACHE_LIMIT:
            self._texts.clear()
        weights = [self._weight(text) for text in texts]
        known = np.array([weight is not None for weight in weights], np.bool_)
        shifts = [weight.shift for weight in weights if weight is not None]
        further = np.array([weight.further for weight in weights if weight is not None])
        probability = self._calibration.shifted_probabilities(shifts, violations[known])
        names_things = np.array([shift[0] for shift in shifts], np.bool_)
        counts_all = (probability >= _SURE) & ~names_things
        counted = np.where(counts_all, further, np.minimum(further, _MAX_WORDS))
        keys[known] = np.where(
            probability >= SHOWS, violations[known] - _PER_WORD * counted, np.inf
        )
        return keys

    def _weight(self, text: str) -> _TextWeight | None:
        if text not in self._texts:
            weight = None
            if self._calibration is not None and self._knows(text):
                weight = _TextWeight(self._calibration.shift(text), further_words(text))
            self._texts[text] = weight
        return self._texts[text]

    def search(self, index: Index, query: Query, points: Points) -> list[Answer]:
        """Return the captions of each of B points (B, N), likely and specific ones first.

        Only the `DEPTH` captions with the smallest violations are reordered; the others follow by
        violation. The first search is less deep: mostly no caption beyond it can come before its
        hits.
        """
        depth = max(_FIRST_DEPTH, _PER_HIT * query.k)
        while True:
            is_deep = depth >= DEPTH
            deeper = replace(query, k=max(DEPTH, query.k) if is_deep else depth)
            answers = index.search_batch(deeper, points)
            ordered = [self._ordered(index, answer, query.k) for answer in answers]
            if is_deep or all(
                len(answer.ids) < depth or last < self._least_key(answer.violations[-1])
                for answer, (_, last) in zip(answers, ordered, strict=True)
            ):
                return [answer for answer, _ in ordered]
            depth = DEPTH

    def _least_key(self, violation: np.float32) -> float:
        """Return a lower bound on the keys of captions with this violation or a larger one."""
        sure = self._calibration is not None and self._calibration.probability(violation) >= _SURE
        return -np.inf if sure else float(violation) - _MAX_WORDS * _PER_WORD

    def _ordered(self, index: Index, answer: Answer, k: int) -> tuple[Answer, float]:
        """Return the first k hits of an answer, and the key of the last of them."""
        near = answer.ids[:DEPTH].tolist()
        rows = index.catalog.captions(near)
        # A caption removed since has no text: the queue then repeats the search without it.
        texts = [rows[hit].text if hit in rows else "" for hit in near]
        keys = self.keys(texts, answer.violations[:DEPTH])
        by_key = np.argsort(keys, kind="stable")
        order = np.concatenate([by_key, np.arange(len(near), len(answer.ids))])
        ids = answer.ids[order[:k]]
        same = {hit: answer.same[hit] for hit in ids.tolist() if hit in answer.same}
        reordered = replace(answer, ids=ids, violations=answer.violations[order[:k]], same=same)
        return reordered, float(keys[by_key[k - 1]]) if k <= len(keys) else np.inf
