"""BLEU and CIDEr: compare generated captions with human ones.

BLEU (Papineni et al., 2002) is that of the corpus, with the closest length of a reference. CIDEr
(Vedantam et al., 2015) is CIDEr-D with sigma 6, times 10 as is usual, whose document frequencies
are those of the references at hand. Both read the words of `models.vocabulary`, without stemming.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hasse.models.vocabulary import words

ORDERS = (1, 2, 3, 4)
_SIGMA = 6.0

Gram = tuple[str, ...]


def bleu(written: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Return BLEU-1 to BLEU-4 in percent; each text has one or more references."""
    matched, counted = [0] * len(ORDERS), [0] * len(ORDERS)
    length, closest = 0, 0
    for text, known in zip(written, references, strict=True):
        own, others = words(text), [words(other) for other in known]
        length += len(own)
        closest += min((abs(len(one) - len(own)), len(one)) for one in others)[1]
        for at, order in enumerate(ORDERS):
            most: Counter[Gram] = Counter()
            for one in others:
                most |= _grams(one, order)
            grams = _grams(own, order)
            matched[at] += (grams & most).total()
            counted[at] += grams.total()
    brevity = 1.0 if length > closest else math.exp(1 - closest / max(1, length))
    logs = [math.log(max(m, 1e-9) / max(c, 1)) for m, c in zip(matched, counted, strict=True)]
    return [100 * brevity * math.exp(sum(logs[:order]) / order) for order in ORDERS]


def cider(written: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return CIDEr-D, at most 10; each text has one or more references."""
    frequency: Counter[Gram] = Counter()
    for known in references:
        seen: set[Gram] = set()
        for text in known:
            seen |= {gram for order in ORDERS for gram in _grams(words(text), order)}
        frequency.update(seen)
    pictures = math.log(max(2, len(references)))
    values = []
    for text, known in zip(written, references, strict=True):
        scores = [_similarity(words(text), words(one), frequency, pictures) for one in known]
        values.append(10 * sum(scores) / len(scores))
    return sum(values) / len(values)


def _grams(tokens: Sequence[str], order: int) -> Counter[Gram]:
    return Counter(tuple(tokens[at : at + order]) for at in range(len(tokens) - order + 1))


def _similarity(
    text: Sequence[str], other: Sequence[str], frequency: Mapping[Gram, int], pictures: float
) -> float:
    """Return the mean over orders of the clipped cosine, less where the lengths differ."""
    total = 0.0
    for order in ORDERS:
        first, second = (
            {
                gram: count * (pictures - math.log(max(1, frequency.get(gram, 0))))
                for gram, count in _grams(tokens, order).items()
            }
            for tokens in (text, other)
        )
        norm = math.sqrt(
            sum(value**2 for value in first.values()) * sum(value**2 for value in second.values())
        )
        shared = sum(
            min(value, second.get(gram, 0)) * second.get(gram, 0) for gram, value in first.items()
        )
        total += shared / norm if norm else 0.0
    return total / len(ORDERS) * math.exp(-((len(text) - len(other)) ** 2) / (2 * _SIGMA**2))
