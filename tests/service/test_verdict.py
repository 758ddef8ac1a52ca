"""Verdicts: from a probability to words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.service.verdict import (
    CLAIM_WORDS,
    HIT_WORDS,
    MAY_SHOW,
    SHOWS,
    TEXT_WORDS,
    hit_word,
    is_hit,
    is_true,
    nothing_shows,
    percent,
    verdict,
)

PROBABILITIES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (1.0, "shows it"),
        (SHOWS, "shows it"),
        (SHOWS - 0.001, "may show it"),
        (MAY_SHOW, "may show it"),
        (MAY_SHOW - 0.001, "nearest, but not it"),
        (0.0, "nearest, but not it"),
    ],
)
def test_verdict_changes_its_words_exactly_at_the_thresholds(
    probability: float, words: str
) -> None:
    assert HIT_WORDS[verdict(probability)] == words


@given(PROBABILITIES, PROBABILITIES)
def test_verdict_never_improves_as_the_probability_falls(one: float, other: float) -> None:
    order = list(HIT_WORDS)
    assert order == list(CLAIM_WORDS) == list(TEXT_WORDS)
    less, more = sorted((one, other))
    assert order.index(verdict(more)) <= order.index(verdict(less))


@pytest.mark.parametrize(
    ("probability", "says", "expected"),
    [
        (MAY_SHOW, False, True),
        (MAY_SHOW - 0.001, False, False),
        (MAY_SHOW - 0.001, True, True),
        (None, False, False),
        (None, True, True),
    ],
)
def test_is_hit_counts_what_may_show_it_or_says_it(
    probability: float | None, says: bool, expected: bool
) -> None:
    assert is_hit(probability, says=says) is expected


@given(PROBABILITIES)
def test_is_true_agrees_with_the_verdict(probability: float) -> None:
    assert is_true(probability) is (verdict(probability) == "shows")
    assert not is_true(None)


def test_nothing_shows_needs_every_probability_and_no_likely_one() -> None:
    assert nothing_shows([0.1, 0.05])
    assert not nothing_shows([0.05, MAY_SHOW])
    assert not nothing_shows([0.05, None])
    assert not nothing_shows([])


@pytest.mark.parametrize(
    ("probability", "words"),
    [(1.0, "over 99 %"), (0.96, "96 %"), (0.99, "99 %"), (0.01, "1 %"), (0.0, "under 1 %")],
)
def test_percent_claims_no_certainty(probability: float, words: str) -> None:
    assert percent(probability) == words


@pytest.mark.parametrize(
    ("probability", "says", "word"),
    [
        (SHOWS, True, "shows it"),
        (MAY_SHOW, True, "may show it"),
        (0.0, True, "says it"),
        (None, True, "says it"),
        (0.0, False, "nearest, but not it"),
        (None, False, None),
    ],
)
def test_hit_word_never_denies_what_a_text_says(
    probability: float | None, says: bool, word: str | None
) -> None:
    assert hit_word(probability, says=says) == word
