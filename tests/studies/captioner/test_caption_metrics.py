"""BLEU and CIDEr of written captions, by figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from hasse.studies.captioner.caption_metrics import bleu, cider


def test_bleu_and_cider_of_a_reference_itself_are_the_largest() -> None:
    texts = ["a dog runs on the beach", "two men sit on a red bench"]
    known = [[text, "something else is here"] for text in texts]
    assert bleu(texts, known) == pytest.approx([100, 100, 100, 100])
    assert cider(texts, [[text] for text in texts]) == pytest.approx(10)


def test_bleu_counts_a_word_no_more_often_than_one_reference_has_it() -> None:
    # Two of four words match, and one of three pairs: "the cat".
    found = bleu(["the the the cat"], [["the cat sat down"]])
    assert found[0] == pytest.approx(50)
    assert found[1] == pytest.approx(100 * math.sqrt(1 / 2 * 1 / 3))


def test_bleu_of_a_short_text_is_less_by_the_brevity_penalty() -> None:
    assert bleu(["a dog"], [["a dog runs fast"]])[0] == pytest.approx(100 * math.exp(1 - 4 / 2))


def test_cider_of_words_that_all_pictures_share_is_0() -> None:
    assert cider(["a a a", "a a a"], [["a a"], ["a a"]]) == 0
