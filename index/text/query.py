"""Read a query: its words, what is quoted, and what is excluded. No character is an operator.

Texts and queries are folded alike, into the words that are compared. Case, accents, the width of
letters, ß and ligatures do not matter. Letters and numbers are kept, everything else separates
words. Chinese and Japanese have no spaces, so that each of their characters is a word, and a longer
one a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Self

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
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»')
_MINUS = re.compile(r'(?:^|(?<=\s))-(?=["\w])(?:"([^"]*)"|(\S+))')
_WITHOUT = re.compile(r"(?:(?<=\s)|(?<=,))without\s+([^,;.]+)", re.IGNORECASE)
_MOST_WORDS = 64  # that are looked up; the others of a query only count for the picture
# Words that say nothing about one picture in particular, for queries and not for texts.
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are at by for from in is it its my of on or our the there this to with "
        "image images photo photograph photographs photos picture pictures",
    )
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query as it was written, and folded: one word or, as in IMG_2033, several."""

    written: str
    folded: str


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What a query looks for in texts, and the caption that is left for the model.

    Attributes:
        caption: the query without quotation marks and exclusions; may be blank.
        terms: words that hits should say. Words such as "the" are only there if no others are.
        phrases: folded texts in quotation marks, which hits must say as they stand.
        excluded: what hits must not say nor show, as it was written.
    """

    caption: str
    terms: tuple[Term, ...]
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: str) -> Self:
        """Read what a person wrote."""
        excluded: list[str] = []

        def take(found: re.Match[str]) -> str:
            excluded.append(next(part for part in found.groups() if part is not None).strip())
            return " "

        rest = _WITHOUT.sub(take, _MINUS.sub(take, query))
        phrases = [
            fold(next(part for part in found.groups() if part is not None))
            for found in _QUOTED.finditer(rest)
        ]
        plain = _QUOTED.sub(lambda found: " ".join(filter(None, found.groups())), rest)
        caption = " ".join(plain.split()) if rest != query or plain != rest else query
        return cls(
            caption,
            terms_of(caption),
            tuple(dict.fromkeys(filter(None, phrases))),
            tuple(dict.fromkeys(text for text in excluded if fold(text))),
        )


def terms_of(text: str) -> tuple[Term, ...]:
    """Return the words of a text, each once."""
    found = {folded: word for word in text.split() if (folded := fold(word))}
    telling = {folded: word for folded, word in found.items() if folded not in _STOP_WORDS}
    terms = [Term(word, folded) for folded, word in (telling or found).items()]
    return tuple(terms[:_MOST_WORDS])


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
