"""Fold texts and queries alike, into the words that are compared.

Case, accents, the width of letters, ß and ligatures do not matter. Letters and numbers are kept,
everything else separates words. Chinese and Japanese have no spaces, so that each of their
characters is a word, and a longer one a phrase.
"""

from __future__ import annotations

import re
import unicodedata

_WORD_CHARACTERS = 64  # of a word; the rest is left out
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Letters without a decomposition that people type without their stroke, or as two.
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "þ": "th"}
)
_ACCENTS = re.compile("[\u0300-\u036f]")
# Han with its extensions, Hiragana and Katakana. A comparison of ranges suffices: digits and signs
# of other scripts were folded before.
_ONE_BY_ONE = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def fold(text: str) -> str:
    """Return the words of a text as they are compared, with one space between them."""
    if text.isascii():
        words = _ASCII_WORD.findall(text.lower())
    else:
        plain = unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS)
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", plain))
        plain = unicodedata.normalize("NFC", plain)
        plain = _ONE_BY_ONE.sub(r" \g<0> ", plain)
        words = "".join(map(_letter_or_space, plain)).split()
    return " ".join([word[:_WORD_CHARACTERS] for word in words])


def _letter_or_space(character: str) -> str:
    return character if unicodedata.category(character)[0] in "LNM" else " "
