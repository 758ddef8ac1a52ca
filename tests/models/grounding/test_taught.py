"""Evidence of taught words: in the best windows, ordered, and independent of other pictures."""

from __future__ import annotations

import numpy as np
import pytest

from hasse.models.encoders.regions import REGIONS
from hasse.models.grounding.evidence import Evidence, Floats
from hasse.models.grounding.taught import TaughtWords

CLASSES, FEATURES, WORDS = 12, 7, 5
RANDOM = np.random.default_rng(0)
KINDS = np.array([[0, 1], [0, 2], [1, 2]], np.int32)  # word 2 is a kind of 1, and 1 of 0


def normal(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape, np.float32)


def words() -> TaughtWords:
    return TaughtWords(
        normal(FEATURES, WORDS) / np.float32(4), normal(WORDS) - np.float32(3), KINDS
    )


def test_taught_word_has_the_odds_of_a_noisy_or_over_windows() -> None:
    taught, features = words(), normal(REGIONS, FEATURES)
    shown = 1 / (1 + np.exp(-(features @ taught.weight + taught.bias)))
    probability = 1 - np.prod(1 - shown, axis=0)
    expected = np.log10(probability / (1 - probability))
    np.testing.assert_allclose(taught.log_odds(features)[3:], expected[3:], atol=1e-4)


def test_taught_general_word_has_at_least_the_evidence_of_its_kinds() -> None:
    taught = words()
    for _ in range(50):
        odds = taught.log_odds(normal(REGIONS, FEATURES))
        assert odds[0] >= odds[1] >= odds[2]


def test_taught_words_stand_behind_the_sets_and_the_bits_do_not_depend_on_the_batch() -> None:
    classifier = 4 * normal(CLASSES, FEATURES), normal(CLASSES)
    sets = np.eye(CLASSES, dtype=np.float32)
    with_words, without = Evidence(sets, classifier, words()), Evidence(sets, classifier)
    features = normal(6, REGIONS, FEATURES)
    found = with_words.of(features)
    assert found.shape == (6, CLASSES + WORDS) == (6, with_words.size)
    np.testing.assert_array_equal(found[:, :CLASSES], without.of(features))
    np.testing.assert_array_equal(
        found, np.concatenate([with_words.of(one[None]) for one in features])
    )
    assert found.min() >= 0
    assert found.max() <= 1


def test_taught_words_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        TaughtWords(normal(FEATURES, WORDS), normal(WORDS + 1), KINDS)
    with pytest.raises(ValueError, match="do not fit"):
        TaughtWords(normal(FEATURES, 2), normal(2), KINDS)
