"""Captions that are likely true of a picture and say most, before others that violate less.

Texts that say little violate least: "person" is true of most pictures, and of this one it says
nothing. So captions that are true more often than not lead, and each further word that they have
counts for them. Captions from a length on count alike, so that among whole sentences the violation
decides; but where a caption is surely true, all of its words count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.evaluation.calibration import Floats, Shift, further_words
from hasse.service.verdict import SHOWS

DEPTH = 1024  # captions that may lead: those that violate least
# Further words that count, and what each of them takes off a violation.
_WORDS, _EACH = 5, 0.02
# From this probability on, all words count of a text that does not only name things.
_SURE = 0.95
_FIRST, _PER_HIT = 128, 4  # captions of the first search, which mostly tells enough
_CACHED = 100_000  # texts


class _Text(NamedTuple):
    shift: Shift
    further: int


class Leading:
    """Puts captions that are likely true and say most first.

    Args:
        checkpoint: the model, whose calibration tells what is likely.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._calibration = checkpoint.calibration.image
        self._knows = checkpoint.vocabulary.knows
        self._texts: dict[str, _Text | None] = {}

    def keys(self, texts: Sequence[str], violations: Points) -> Floats:
        """Return what captions are sorted by, the smallest first: (C,), infinite for unlikely ones.

        Those without a word that the model knows are unlikely, and all are without a calibration.
        """
        keys = np.full(len(texts), np.inf)
        if self._calibration is None:
            return keys
        if len(self._texts) > _CACHED:
            self._texts.clear()
        read = [self._read(text) for text in texts]
        known = np.array([one is not None for one in read], np.bool_)
        shifts = [one.shift for one in read if one is not None]
        further = np.array([one.further for one in read if one is not None])
        probability = self._calibration.shifted_probabilities(shifts, violations[known])
        names_things = np.array([shift[0] for shift in shifts], np.bool_)
        counts_all = (probability >= _SURE) & ~names_things
        counted = np.where(counts_all, further, np.minimum(further, _WORDS))
        keys[known] = np.where(probability >= SHOWS, violations[known] - _EACH * counted, np.inf)
        return keys

    def _read(self, text: str) -> _Text | None:
        if text not in self._texts:
            found = None
            if self._calibration is not None and self._knows(text):
                found = _Text(self._calibration.shift(text), further_words(text))
            self._texts[text] = found
        return self._texts[text]

    def search(self, index: Index, query: Query, points: Points) -> list[Answer]:
        """Return the captions for each of some points (B, N), those that lead first.

        Only captions among the `DEPTH` that violate least lead; the others follow by violation. A
        first search is not as deep, and mostly no caption beyond it can lead before its hits.
        """
        depth = max(_FIRST, _PER_HIT * query.k)
        while True:
            is_deep = depth >= DEPTH
            asked = replace(query, k=max(DEPTH, query.k) if is_deep else depth)
            answers = index.search_batch(asked, points)
            ordered = [self._ordered(index, answer, query.k) for answer in answers]
            if is_deep or all(
                len(answer.ids) < depth or last < self._least_key(answer.violations[-1])
                for answer, (_, last) in zip(answers, ordered, strict=True)
            ):
                return [answer for answer, _ in ordered]
            depth = DEPTH

    def _least_key(self, violation: np.float32) -> float:
        """Return a key that no caption of this violation or a larger one is below."""
        sure = self._calibration is not None and self._calibration.probability(violation) >= _SURE
        return -np.inf if sure else float(violation) - _WORDS * _EACH

    def _ordered(self, index: Index, answer: Answer, k: int) -> tuple[Answer, float]:
        """Return the first k hits of an answer, and the key of the last of them."""
        near = answer.ids[:DEPTH].tolist()
        rows = index.catalog.captions(near)
        # One that was removed since has no text: the search is then repeated without it.
        texts = [rows[hit].text if hit in rows else "" for hit in near]
        keys = self.keys(texts, answer.violations[:DEPTH])
        by_key = np.argsort(keys, kind="stable")
        order = np.concatenate([by_key, np.arange(len(near), len(answer.ids))])
        ids = answer.ids[order[:k]]
        same = {hit: answer.same[hit] for hit in ids.tolist() if hit in answer.same}
        led = replace(answer, ids=ids, violations=answer.violations[order[:k]], same=same)
        return led, float(keys[by_key[k - 1]]) if k <= len(keys) else np.inf
