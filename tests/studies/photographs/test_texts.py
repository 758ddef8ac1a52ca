"""Texts to learn from: captions, their phrases, and named things."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.studies.photographs.texts import collect, read_texts, write_texts
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.synsets import AbstractionError
from tests.wordnet import write_wordnet

CAPTIONS = ("a black dog runs", "the black dog sits on a branch", "a dog")


@pytest.fixture
def lexicon(tmp_path: Path) -> Lexicon:
    return Lexicon.read(write_wordnet(tmp_path / "wordnet"))


def test_collect_keeps_captions_and_the_phrases_of_several(lexicon: Lexicon) -> None:
    texts = collect(CAPTIONS, lexicon)
    assert set(CAPTIONS) <= set(texts)
    assert "black dog" not in texts, "in one caption only"
    assert {"dog", "black"} <= set(texts)
    assert len(texts) == len(set(texts))


def test_collect_names_things_of_known_words_and_says_what_they_are(lexicon: Lexicon) -> None:
    texts = collect(CAPTIONS, lexicon, ["a bird"])
    assert {"a bird", "a dog"} <= set(texts)
    assert "an autumn" not in texts, "it is no thing"


def test_collect_stops_at_so_many_words(lexicon: Lexicon) -> None:
    few = collect(CAPTIONS, lexicon, most_words=1)
    assert "beast" not in few
    assert "beast" in collect(CAPTIONS, lexicon)


def test_read_texts_takes_files_with_and_without_names(tmp_path: Path) -> None:
    write_texts(tmp_path / "plain.txt", ["a  dog", "a cat"])
    assert read_texts(tmp_path / "plain.txt") == ["a dog", "a cat"]
    (tmp_path / "token.txt").write_text("1.jpg#0\ta dog\n1.jpg#1\ta dog\n\n")
    assert read_texts(tmp_path / "token.txt") == ["a dog"]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(AbstractionError, match="is empty"):
        read_texts(tmp_path / "empty.txt")
