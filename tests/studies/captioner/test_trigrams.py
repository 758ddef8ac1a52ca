"""The trigram model."""

from __future__ import annotations

import numpy as np
import pytest

from hasse.models.vocabulary import PADDING
from hasse.studies.captioner.trigrams import Trigrams

WORDS = 7
TEXTS = ([3, 4, 5], [3, 4, 6], [4, 5, 6, 3])


@pytest.fixture
def trigrams() -> Trigrams:
    return Trigrams.count(TEXTS, WORDS)


@pytest.mark.parametrize("before", [(3, 4), (6, 5), (PADDING, 3), (5, 3)])
def test_probabilities_of_all_words_after_two_words_sum_to_one(
    trigrams: Trigrams, before: tuple[int, int]
) -> None:
    grams = (before[0] * WORDS + before[1]) * WORDS + np.arange(WORDS)
    assert trigrams.probability(grams).sum() == pytest.approx(1)
    assert (trigrams.probability(grams) > 0).all()


def test_text_in_the_order_of_training_reads_better_than_another(trigrams: Trigrams) -> None:
    assert trigrams.fluency([3, 4, 5]) > trigrams.fluency([5, 4, 3])


def test_kneser_ney_of_a_trigram_is_as_worked_out_by_hand() -> None:
    found = Trigrams.count([[3], [3], [4]], 5)
    # Distinct trigrams end in "mark 3", "mark 4", "3 end" and "4 end": two contexts have the end.
    single = (1 - 0.75) / 4 + 0.75 * 3 / 4 / 5
    bigram = (1 - 0.75) / 2 + 0.75 * 2 / 2 * single
    trigram = (2 - 0.75) / 3 + 0.75 * 2 / 3 * bigram
    gram = np.array([(PADDING * 5 + PADDING) * 5 + 3])
    assert found.probability(gram)[0] == pytest.approx(trigram)
