"""Everyday words of captions in all their forms, by a small WordNet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.studies.photographs.everyday import EverydayWords
from hasse.studies.wordnet.lexicon import Lexicon
from tests.wordnet import write_wordnet


@pytest.fixture
def words(tmp_path: Path) -> EverydayWords:
    return EverydayWords(Lexicon.read(write_wordnet(tmp_path / "wordnet")))


def test_forms_of_a_word_have_one_lemma(words: EverydayWords) -> None:
    assert words.lemma("dogs") == words.lemma("dog") == ("dog", "noun")
    assert words.lemma("walking") == words.lemma("walked") == ("walk", "verb")
    assert words.lemma("blue") == ("blue", "adj")


@pytest.mark.parametrize("word", ["the", "with", "a", "group", "unheard"])
def test_word_without_content_has_no_lemma(words: EverydayWords, word: str) -> None:
    assert words.lemma(word) is None


def test_nouns_of_two_words_are_found_with_their_second_word(words: EverydayWords) -> None:
    words.lexicon.senses["noun"]["blue_dog"] = ("00000006",)  # type: ignore[index]
    found = words.forms("Two blue dogs walk.")
    assert found["blue dogs"] == ("blue dog", "noun")
    assert found["dogs"] == ("dog", "noun")


def test_general_words_hold_of_all_their_kinds(words: EverydayWords) -> None:
    lemmas = [("dog", "noun"), ("animal", "noun"), ("bird", "noun"), ("walk", "verb")]
    general = words.general(lemmas)
    assert general["dog", "noun"] == {("animal", "noun")}
    assert general["animal", "noun"] == set()
