"""Texts become the tokens that their encoder has learned from."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from hasse.models.tokenizer import Cleaning, Tokenizer, TokenizerError, TokenSettings
from tests.tiny_towers import END, PAD, START, UNKNOWN, WORDS, tokenizer

A, RED, DOG = (WORDS.index(word) for word in ("a", "red", "dog"))


def tokens_of(text: str, settings: TokenSettings) -> list[int]:
    tokens, _ = Tokenizer(tokenizer(), settings)(text)
    return [int(number) for number in tokens[0]]


def test_tokenizer_pads_short_texts_and_masks_the_padding() -> None:
    tokens, mask = Tokenizer(tokenizer(), TokenSettings(6, PAD))("a dog")
    assert tokens.tolist() == [[START, A, DOG, END, PAD, PAD]]
    assert mask.tolist() == [[1, 1, 1, 1, 0, 0]]


def test_tokenizer_cuts_long_texts_before_the_end_token() -> None:
    assert tokens_of("a red dog a red dog", TokenSettings(5, PAD)) == [START, A, RED, DOG, END]


def test_tokenizer_of_an_empty_text_gives_its_frame() -> None:
    assert tokens_of("", TokenSettings(3, END)) == [START, END, END]


def test_tokenizer_replaces_the_separator_by_zero() -> None:
    assert tokens_of("a", TokenSettings(4, UNKNOWN, separator=END)) == [START, A, 0, UNKNOWN]


@pytest.mark.parametrize(
    ("clean", "text", "expected"),
    [
        ("whitespace", " a\n  dog ", [A, DOG]),
        ("whitespace", "a Dog", [A, UNKNOWN]),
        ("lower", "A  Dog!", [A, DOG, WORDS.index("!")]),
        ("canonicalize", "A red_Dog!", [A, RED, DOG]),
        ("canonicalize", "a, (DOG).", [A, DOG]),
    ],
)
def test_tokenizer_cleans_texts_as_its_settings_say(
    clean: Cleaning, text: str, expected: list[int]
) -> None:
    numbers = tokens_of(text, TokenSettings(10, PAD, clean))
    assert numbers[: numbers.index(END)] == [START, *expected]


def test_unknown_words_are_those_that_the_vocabulary_lacks() -> None:
    read = Tokenizer(tokenizer(), TokenSettings(6))
    assert read.unknown_words("a zebra, a red zebra") == ["zebra"]
    assert read.knows("zebra dog")
    assert not read.knows("zebra!")


def test_unknown_words_of_bytes_are_those_without_two_characters_in_a_token() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = {piece: number for number, piece in enumerate([*alphabet, "do", "dog"])}
    made = tokenizers.Tokenizer(models.BPE(known, [("d", "o"), ("do", "g")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    read = Tokenizer(made.to_str().encode(), TokenSettings(6))
    assert read.unknown_words("dog doggy σκύλος 犬 x") == ["σκύλος", "犬"]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"<html>"])
def test_tokenizer_that_cannot_be_read_is_refused_in_a_sentence(content: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer.json is not a tokenizer .*download it"):
        Tokenizer(content, TokenSettings(6))


@pytest.mark.parametrize(("length", "clean"), [(0, "lower"), (10**9, "lower"), (6, "upper")])
def test_settings_that_are_impossible_are_refused(length: int, clean: Cleaning) -> None:
    with pytest.raises(ValueError, match="text"):
        TokenSettings(length, clean=clean)


def test_tokenizer_without_its_package_says_what_to_install() -> None:
    program = """
import sys
sys.modules["tokenizers"] = None
from hasse.models.tokenizer import Tokenizer, TokenizerError, TokenSettings
try:
    Tokenizer(b"{}", TokenSettings(6))
except TokenizerError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'need a package that is missing: pip install -e ".[clip]"' in result.stdout
