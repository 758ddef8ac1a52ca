"""Parses a query into words, quoted phrases and exclusions. Any text is a valid query.

Texts and queries are folded in the same way before words are compared. Case, accents, the width of
letters, ß and ligatures do not matter. All characters except letters and numbers separate words.
Chinese and Japanese have no spaces: each of their characters is a word, and a longer word is a
phrase.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Self

from hasse.models.spelling import visible

_WORD_CHARACTERS = 64  # longer words are cut
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Letters without a decomposition, which people type without their stroke, or as two letters.
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "þ": "th"}
)
_ACCENTS = re.compile("[\u0300-\u036f]")
# Han with its extensions, Hiragana and Katakana. Ranges are enough, because digits and signs are
# folded before.
_SINGLE_CHARACTER_WORDS = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»')
_MINUS = re.compile(r'(?:^|(?<=\s))-(?=["\w])(?:"([^"]*)"|(\S+))')
_WITHOUT = re.compile(r"(?:(?<=\s)|(?<=,))without\s+([^,;.]+)", re.IGNORECASE)
_MAX_WORDS = 64  # words of a query that are searched in texts; the model still reads all of them
# Words of a query that do not distinguish pictures; they are indexed all the same.
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are at by for from in is it its my of on or our the there this to with "
        "image images photo photograph photographs photos picture pictures",
    )
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, as written and folded; folding may make several words, as of IMG_2033."""

    written: str
    folded: str


@dataclass(frozen=True, slots=True)
class TextQuery:
    """The parts of a query for text search, and the caption for the model.

    Attributes:
        caption: the query without quotation marks and exclusions; may be blank.
        terms: words that the texts of hits should contain; stop words only if there are no others.
        phrases: folded texts in quotation marks, which the texts of hits must contain.
        excluded: unfolded texts that hits must neither contain nor show.
    """

    caption: str
    terms: tuple[Term, ...]
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: str) -> Self:
        """Parse a query."""
        excluded: list[str] = []

        def exclude(match: re.Match[str]) -> str:
            excluded.append(next(part for part in match.groups() if part is not None).strip())
            return " "

        rest = _WITHOUT.sub(exclude, _MINUS.sub(exclude, query))
        phrases = [
            fold(next(part for part in match.groups() if part is not None))
            for match in _QUOTED.finditer(rest)
        ]
        plain = _QUOTED.sub(lambda match: " ".join(filter(None, match.groups())), rest)
        caption = " ".join(plain.split()) if rest != query or plain != rest else query
        return cls(
            caption,
            terms_of(caption),
            tuple(dict.fromkeys(filter(None, phrases))),
            tuple(dict.fromkeys(text for text in excluded if fold(text))),
        )


def terms_of(text: str) -> tuple[Term, ...]:
    """Return the different words of a text, without stop words if there are others."""
    words = {folded: word for word in text.split() if (folded := fold(word))}
    content_words = {folded: word for folded, word in words.items() if folded not in _STOP_WORDS}
    terms = [Term(word, folded) for folded, word in (content_words or words).items()]
    return tuple(terms[:_MAX_WORDS])


def fold(text: str) -> str:
    """Return the folded words of a text, with one space between them."""
    if text.isascii():
        words = _ASCII_WORD.findall(text.lower())
    else:
        plain = unicodedata.normalize("NFKC", visible(text)).casefold().translate(_LETTERS)
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", plain))
        plain = unicodedata.normalize("NFC", plain)
        plain = _SINGLE_CHARACTER_WORDS.sub(r" \g<0> ", plain)
        words = "".join(map(_letter_or_space, plain)).split()
    return " ".join([word[:_WORD_CHARACTERS] for word in words])


def _letter_or_space(character: str) -> str:
    return character if unicodedata.category(character)[0] in "LNM" else " "
