"""Choose among the texts drawn for a picture: as the paper does, or by the order.

The paper adds the cosine of picture and text, with a penalty for repeated words, and the
log-probability of a trigram model. The order knows more: whether a text is true of the picture (by
its violation), and how much it says (by the share of other pictures that it is true of). So texts
that are likely to be true come first, texts with an action before others. Among them the text with
the greatest sum leads:

    log P(true) - SAYING * log(share of pictures) - SUBJECT * log(share with the subject)
        + READING * (mean log-probability of a word in the trigram model)

"A girl standing outside" comes before "a person standing in a street": its subject is rarer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.models.calibration import Calibration, further_words
from hasse.models.embedding_model import Points
from hasse.models.score import Score, penalties_between
from hasse.studies.captioner.captioner import Candidates
from hasse.studies.captioner.judgement import Judgement, JudgementInputs, judgement_inputs
from hasse.studies.wordnet.words import content_words

# Chosen on drawn scenes: the most specific captions of which 95 in 100 are true.
LIKELY = 0.93  # lowest probability by a judgement of a text that counts as true
SAYING, SUBJECT, READING = 0.02, 0.2, 0.4
TRIGRAM_WEIGHT = 0.1  # of the mean log-probability of a word, added to a cosine
UNREADABLE = -3.5  # of the mean log-probability: no training caption reads so badly
_TINY = 1e-9
COMPARED = 256  # references to estimate how often a text is true

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DrawnCaption:
    """A caption that a model generated.

    Attributes:
        violation: of the picture and the text; under the score cosine the penalty.
        probability: how likely the text is to be true; None if the model is not calibrated.
        in_training: whether a training caption has the same words.
    """

    text: str
    violation: float
    probability: float | None
    in_training: bool


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """Scores of texts for a picture.

    Attributes:
        violations: (C,).
        probability: (C,), of being true; None if the encoder is not calibrated.
        shares: (C,), of other pictures that a text is true of; None if it is not calibrated.
        likely: (C,), whether a text counts as true: by `LIKELY`, or the calibration's threshold.
        rarity: (C,), the negative logarithm of the share of other pictures with the subject.
        inputs: the inputs of a judgement; None if the encoder is not calibrated.
        similarity: (C,), the paper's score without the trigrams.
    """

    violations: Floats
    probability: Floats | None
    shares: Floats | None
    likely: NDArray[np.bool_]
    rarity: Floats
    inputs: JudgementInputs | None
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
) -> CandidateScores:
    """Compare texts with a picture.

    Args:
        picture: (N,).
        points: (C, N) of the texts.
        references: (R, N), which stand for other pictures.
        calibration: from violations to probabilities.
        judgement: estimates the truth of generated texts better than `calibration`.
        rarity: of nouns.
    """
    violations = penalties_between(score, picture[None], points)[0].astype(np.float64)
    similarity = _similarity(picture, candidates, points)
    rare = np.array([rarity.get(subject, 0.0) for subject in candidates.subjects])
    if calibration is None:
        unlikely = np.zeros(len(violations), dtype=np.bool_)
        return CandidateScores(violations, None, None, unlikely, rare, None, similarity)
    word_counts = np.array([further_words(text) for text in candidates.texts])
    added = calibration.word_weight * word_counts
    other_penalties = penalties_between(score, references[:COMPARED], points)
    shares = calibration.probability(other_penalties + added).mean(0)
    inputs = judgement_inputs(picture, candidates, points, violations, shares)
    if judgement is None:
        probability = calibration.probability(violations + added)
        likely = violations + added <= calibration.threshold
    else:
        probability = judgement.probability(inputs)
        likely = probability >= LIKELY
    return CandidateScores(violations, probability, shares, likely, rare, inputs, similarity)


def rank(scores: CandidateScores, candidates: Candidates) -> list[DrawnCaption]:
    """Return the texts, the best first; of texts with the same content words only the best.

    Without probabilities, the ranking is the paper's.
    """
    probability = scores.probability
    if probability is None or scores.shares is None:
        value = scores.similarity + TRIGRAM_WEIGHT * candidates.fluency[:, 0]
    else:
        value = np.log(probability + _TINY) - SAYING * np.log(scores.shares + _TINY)
        value += SUBJECT * scores.rarity + READING * candidates.fluency[:, 0]
        likely = scores.likely
        # Larger than all values of the sum, so these texts sort first.
        value += 100.0 * likely + 100.0 * (likely & candidates.acts)
        value -= 1000.0 * (candidates.fluency[:, 0] < UNREADABLE)
    captions: dict[frozenset[str], DrawnCaption] = {}
    for at in np.argsort(-value, kind="stable"):
        text = candidates.texts[at]
        captions.setdefault(
            frozenset(content_words(text)),
            DrawnCaption(
                text,
                float(scores.violations[at]),
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
    """Return the negative logarithm of the share of pictures with each thing, by its word.

    Args:
        points: (W, N) of "a" and the word.
        references: (R, N), which stand for pictures.
    """
    violations = penalties_between(score, references[:COMPARED], points)
    shares = calibration.probability(violations).mean(0)
    return dict(zip(words, (-np.log(shares + _TINY)).tolist(), strict=True))


def _similarity(picture: NDArray[np.float32], candidates: Candidates, points: Points) -> Floats:
    """Return the cosine of the picture and each text, lower for repeated words: (C,)."""
    lengths = np.linalg.norm(points, axis=1) * np.linalg.norm(picture)
    repetitions = np.array([_repetitions(text) for text in candidates.texts])
    cosine: Floats = points @ picture / np.maximum(lengths, _TINY) / (1 + repetitions)
    return cosine


def _repetitions(text: str) -> int:
    """Count the content words of a text that have occurred in it before."""
    return sum(count - 1 for count in Counter(content_words(text)).values())
