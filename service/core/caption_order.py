"""Order of captions of a picture: likely true and specific ones first, then by violation.

Short texts violate least: "person" is true of most pictures, but tells nothing about this one. So
captions with a probability of 0.5 or more come first, and each further word of a caption lowers its
sort key. Only the first few words count, so that among whole sentences the violation decides. In
captions that are almost certainly true all words count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.calibration import Calibration, Floats, further_words
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.verdict import SHOWS

DEPTH = 1024  # captions that may come first: those with the smallest violations
_MAX_WORDS = 5  # further words that count
_PER_WORD = 0.02  # subtracted from the violation for each further word that counts
# From this probability on, all words of a text count.
_SURE = 0.95
_FIRST_DEPTH, _PER_HIT = 128, 4  # captions of the first search, which is mostly enough
_CACHE_LIMIT = 100_000  # texts
_JUDGED = 64  # captions that are judged at a time


class CaptionOrder:
    """Sorts captions: likely true and specific ones first.

    Args:
        checkpoint: the model; its calibration gives the probabilities.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._judge = checkpoint.judge("image")
        self._knows = lru_cache(_CACHE_LIMIT)(checkpoint.vocabulary.knows)

    def keys(self, texts: Sequence[str], violations: Points, picture: Points, k: int) -> Floats:
        """Return the sort keys of captions, smallest first: (C,), infinite for unlikely captions.

        A caption without a word that the model knows is unlikely. Without a calibration all are.
        The captions that may be among the first k are judged, some at a time; the others count as
        unlikely too.
        """
        keys = np.full(len(texts), np.inf)
        if self._judge is None:
            return keys
        further = np.array([further_words(text) for text in texts], np.int64)
        least = violations - _PER_WORD * further
        known = np.array([self._knows(text) for text in texts], np.bool_)
        order = np.flatnonzero(known)[np.argsort(least[known], kind="stable")]
        for start in range(0, len(order), _JUDGED):
            rows = order[start : start + _JUDGED]
            judged = keys[order[:start]]
            if len(judged) >= k and np.partition(judged, k - 1)[k - 1] < least[rows[0]]:
                break
            premises = np.broadcast_to(picture, (len(rows), len(picture)))
            probability = self._judge.probabilities(
                [texts[row] for row in rows], premises, violations[rows]
            )
            counted = np.where(
                probability >= _SURE, further[rows], np.minimum(further[rows], _MAX_WORDS)
            )
            keys[rows] = np.where(
                probability >= SHOWS, violations[rows] - _PER_WORD * counted, np.inf
            )
        return keys

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
            ordered = [
                self._ordered(index, answer, query.k, point)
                for answer, point in zip(answers, points, strict=True)
            ]
            if is_deep or all(
                len(answer.ids) < depth or last < self._least_key(answer.violations[-1])
                for answer, (_, last) in zip(answers, ordered, strict=True)
            ):
                return [answer for answer, _ in ordered]
            depth = DEPTH

    def _least_key(self, violation: np.float32) -> float:
        """Return a lower bound on the keys of captions with this violation or a larger one."""
        known = None if self._judge is None else self._judge.known
        is_sure = isinstance(known, Calibration) and known.probability(violation) >= _SURE
        return -np.inf if is_sure else float(violation) - _MAX_WORDS * _PER_WORD

    def _ordered(
        self, index: Index, answer: Answer, k: int, picture: Points
    ) -> tuple[Answer, float]:
        """Return the first k hits of an answer, and the key of the last of them."""
        near = answer.ids[:DEPTH].tolist()
        rows = index.catalog.captions(near)
        # A caption removed since has no text: the queue then repeats the search without it.
        texts = [rows[hit].text if hit in rows else "" for hit in near]
        keys = self.keys(texts, answer.violations[:DEPTH], picture, k)
        by_key = np.argsort(keys, kind="stable")
        order = np.concatenate([by_key, np.arange(len(near), len(answer.ids))])
        ids = answer.ids[order[:k]]
        same = {hit: answer.same[hit] for hit in ids.tolist() if hit in answer.same}
        reordered = replace(answer, ids=ids, violations=answer.violations[order[:k]], same=same)
        return reordered, float(keys[by_key[k - 1]]) if k <= len(keys) else np.inf
