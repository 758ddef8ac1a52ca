"""Choose among the texts that were drawn for a picture: as the paper does, or by the order.

The paper adds the cosine of picture and text, with a penalty for words that are repeated, and the
log-probability of a trigram model. The order can tell more: whether a text is true of the picture
(by its violation), and how much it says (by the share of other pictures that it is true of). So
texts that are likely to be true come first, those that name an action before others, and among them
those of the greatest

    log P(true) - SAYING * log(share of pictures) - SUBJECT * log(share with the subject)
        + READING * (mean log-probability of a word in the trigram model)

"A girl standing outside" comes before "a person standing in a street": its subject is rarer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hasse.models.captioning.words import content_words
from hasse.models.embedding_model import Points
from hasse.models.evaluation.calibration import Calibration, further_words
from hasse.models.score import Score, penalties_between

if TYPE_CHECKING:
    from hasse.models.captioning.captioner import Candidates
    from hasse.models.captioning.judgement import Judgement, Seen

# Chosen on drawn scenes: as specific as 95 true ones in 100 allow.
LIKELY = 0.93  # where a judgement gives a text this probability, it is called true
SAYING, SUBJECT, READING = 0.02, 0.2, 0.4
TRIGRAM_WEIGHT = 0.1  # beside a cosine, for the mean log-probability of a word
UNREADABLE = -3.5  # of the mean log-probability: no training caption reads so badly
_TINY = 1e-9
COMPARED = 256  # references that tell how often a text is true

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WrittenCaption:
    """A caption that a model wrote.

    Attributes:
        violation: of the picture and the text; for the score cosine its penalty.
        probability: of the text being true of the picture, None where the model is not calibrated.
        in_training: whether the same words stand among the training captions.
    """

    text: str
    violation: float
    probability: float | None
    in_training: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """Violations, probabilities and other scores of texts beside a picture.

    Attributes:
        violations: (C,).
        probability: (C,), of being true; None where the encoder is not calibrated.
        shares: (C,), of other pictures that a text is true of, where it is.
        likely: (C,), whether a text is called true: by `LIKELY`, or by the calibration's threshold.
        rarity: (C,), the negative logarithm of the share of other pictures with the subject.
        seen: what a judgement learns from.
        similarity: (C,), the paper's score without the trigrams.
    """

    violations: Floats
    probability: Floats | None
    shares: Floats | None
    likely: NDArray[np.bool_]
    rarity: Floats
    seen: Seen | None
    similarity: Floats


def judge(
    picture: NDArray[np.float32],
    candidates: Candidates,
    points: Points,
    references: Points,
    score: Score,
    calibration: Calibration | None,
    judgement: Judgement | None,
    rarity: Mapping[str, float],
) -> Judged:
    """Compare texts with a picture.

    Args:
        picture: (N,).
        points: (C, N) of the texts.
        references: (R, N), which stand for other pictures.
        calibration: what violations mean.
        judgement: estimates the truth of generated texts better than `calibration`.
        rarity: of nouns.
    """
    violations = penalties_between(score, picture[None], points)[0].astype(np.float64)
    similarity = _similarity(picture, candidates, points)
    rare = np.array([rarity.get(subject, 0.0) for subject in candidates.subjects])
    if calibration is None:
        nothing = np.zeros(len(violations), dtype=np.bool_)
        return Judged(violations, None, None, nothing, rare, None, similarity)
    further = np.array([further_words(text) for text in candidates.texts])
    added = calibration.word_weight * further
    others = penalties_between(score, references[:COMPARED], points)
    shares = calibration.probability(others + added).mean(0)
    from hasse.models.captioning.judgement import see  # with torch

    seen = see(picture, candidates, points, violations, shares)
    if judgement is None:
        probability = calibration.probability(violations + added)
        likely = violations + added <= calibration.threshold
    else:
        probability = judgement.probability(seen)
        likely = probability >= LIKELY
    return Judged(violations, probability, shares, likely, rare, seen, similarity)


def rank(judged: Judged, candidates: Candidates) -> list[WrittenCaption]:
    """Return the texts, the best first, without those that say the same in the same words.

    Where there are no probabilities, the ranking is the paper's.
    """
    probability = judged.probability
    if probability is None or judged.shares is None:
        value = judged.similarity + TRIGRAM_WEIGHT * candidates.fluency[:, 0]
    else:
        value = np.log(probability + _TINY) - SAYING * np.log(judged.shares + _TINY)
        value += SUBJECT * judged.rarity + READING * candidates.fluency[:, 0]
        likely = judged.likely
        # Whole numbers above all values of the sum: they sort first.
        value += 100.0 * likely + 100.0 * (likely & candidates.acts)
        value -= 1000.0 * (candidates.fluency[:, 0] < UNREADABLE)
    captions: dict[frozenset[str], WrittenCaption] = {}
    for at in np.argsort(-value, kind="stable"):
        text = candidates.texts[at]
        captions.setdefault(
            frozenset(content_words(text)),
            WrittenCaption(
                text,
                float(judged.violations[at]),
                None if probability is None else float(probability[at]),
                bool(candidates.in_training[at]),
            ),
        )
    return list(captions.values())


def rarity_of(
    words: Sequence[str],
    points: Points,
    references: Points,
    score: Score,
    calibration: Calibration,
) -> dict[str, float]:
    """Return the negative logarithm of the share of pictures that have each thing, by its word.

    Args:
        points: (W, N) of "a" and the word.
        references: (R, N), which stand for pictures.
    """
    violations = penalties_between(score, references[:COMPARED], points)
    shares = calibration.probability(violations).mean(0)
    return dict(zip(words, (-np.log(shares + _TINY)).tolist(), strict=True))


def _similarity(picture: NDArray[np.float32], candidates: Candidates, points: Points) -> Floats:
    """Return the cosine of the picture and each text, less where words are repeated: (C,)."""
    lengths = np.linalg.norm(points, axis=1) * np.linalg.norm(picture)
    repeated = np.array([_repeated(text) for text in candidates.texts])
    cosine: Floats = points @ picture / np.maximum(lengths, _TINY) / (1 + repeated)
    return cosine


def _repeated(text: str) -> int:
    """Count the content words of a text that have occurred in it before."""
    return sum(count - 1 for count in Counter(content_words(text)).values())
