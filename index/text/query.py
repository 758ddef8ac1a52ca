"""Parses a query into words, quoted phrases and exclusions, and finds its words in texts.

Any text is a valid query. Texts and queries are folded in the same way before words are compared.
Case, accents, vowel marks, the width of letters, ß and ligatures do not matter. All characters
except letters and numbers separate words. Chinese and Japanese have no spaces: each of their
characters is a word, and a longer word is a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from hasse.index.text.sources import SourcedText
from hasse.models.spelling import visible

Form: TypeAlias = Literal["word", "beginning", "part"]
TextPattern: TypeAlias = tuple[str, Form]  # a folded text, and the form to match in documents
Texts: TypeAlias = Mapping[int, Sequence[SourcedText]]  # by image id
# Texts of an image, each with the positions of the terms that it contains.
Matched: TypeAlias = Sequence[tuple[SourcedText, set[int]]]

# What stands before and after a text in a document of words with spaces between.
SPACES: dict[Form, tuple[str, str]] = {"word": (" ", " "), "beginning": (" ", ""), "part": ("", "")}

_SNIPPET = 160  # characters
_MAX_TEXTS = 3  # texts that a hit lists
_WORD_CHARACTERS = 64  # longer words are cut
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Letters without a decomposition, which people type without their stroke, or as two letters.
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "þ": "th"}
)
# Accents, and the vowel marks of Hebrew, Arabic and Syriac, which people leave out; the Arabic
# tatweel only lengthens a word. Vowel signs of other scripts, such as Hindi's, are letters.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a]"
)
# Han with its extensions, Hiragana and Katakana. Ranges are enough, because digits and signs are
# folded before.
_SINGLE_CHARACTER_WORDS = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_QUOTES = r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»'
# What ends the things after "no": "no dogs on the beach" leaves out dogs, and looks for a beach.
_END = (
    "against along at behind beside besides but by during from has have in inside is are near next "
    "no not on outside over that under when where which while who with without"
).replace(" ", "|")
_THINGS = (
    rf"[^\s,;.!?\"“„«-][^\s,;.!?\"“„«]*(?:\s+(?!(?:{_END})\b)[^\s,;.!?\"“„«-][^\s,;.!?\"“„«]*)*"
)
_JOINED = r"(?:\b(?:with|but|and|has|have|having|there(?:\s+is|\s+are|'s))\s+)?"
_PARTS = re.compile(
    rf"""(?P<without>(?:^|(?<=\s))-|(?:(?:^|(?<=[\s,]))(?:without|excluding)\s+))?(?P<quoted>{_QUOTES})
    |(?:^|(?<=\s))-(?P<word>\w\S*)
    |(?:^|(?<=[\s,]))(?:without|excluding)\s+(?P<things>{_THINGS})
    |(?:^|(?<=[\s,])){_JOINED}(?P<nobody>nobody|no[\s-]?one)\b
    |(?:^|(?<=[\s,])){_JOINED}(?<!\bdo\s)(?<!\bdoes\s)(?:no|not)\s+(?:any\s+)?(?P<absent>{_THINGS})""",
    re.IGNORECASE | re.VERBOSE,
)
_BETWEEN = re.compile(r"\s+(?:and|or|nor)\s+(?:no\s+|any\s+)?", re.IGNORECASE)
# "No parking" is a sign: it is read as words.
_ON_SIGNS = re.compile(
    r"(?:smoking|parking|entry|entrance|exit|stopping|standing|waiting|trespassing|swimming|diving|"
    r"fishing|camping|littering|dumping|vacancy|vacancies|turns?|way|limits?)\b|.*\bsigns?\b|\d",
    re.IGNORECASE,
)
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
class ResolvedTerm:
    """A term of a query in the form that documents contain.

    Attributes:
        text: the folded term; if no document contains the term, another form or a correction of it.
        form: whether it matches words, beginnings of words, or parts of words.
        known: whether the model knows the term.
    """

    term: Term
    text: str
    form: Form
    known: bool

    @property
    def is_corrected(self) -> bool:
        """Whether `text` is a correction; a word that the model knows is spelt right."""
        return self.text != self.term.folded and not self.known

    @property
    def only_resembles(self) -> bool:
        """Whether documents have another word that only resembles the term."""
        return self.is_corrected or self.form == "part"

    @property
    def pattern(self) -> TextPattern:
        """The pattern that documents must match."""
        return self.text, self.form


@dataclass(frozen=True, slots=True)
class TextQuery:
    """The parts of a query for text search, and the caption for the model.

    Attributes:
        caption: the query without quoted text and exclusions; may be blank.
        terms: words that the texts of hits should contain; stop words only if there are no others.
            Without a caption these are the words of quoted texts.
        phrases: folded texts in quotation marks, which the texts of hits must contain.
        excluded: unfolded texts that hits must neither contain nor show.
    """

    caption: str
    terms: tuple[Term, ...]
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: str, knows: Callable[[str], bool] = bool) -> Self:
        """Parse a query.

        `knows` returns whether the model knows a text. "No" and "not" before other texts are words.
        """
        quoted: list[str] = []
        excluded: list[str] = []

        def take(match: re.Match[str]) -> str:
            if match["quoted"]:
                text = next(filter(None, match.groups()[2:6]), "")
                (excluded if match["without"] else quoted).append(text)
            elif absent := match["absent"]:
                if _ON_SIGNS.match(absent) or not knows(absent):
                    return match[0]
                excluded.extend(_BETWEEN.split(absent))
            elif things := match["things"]:
                excluded.extend(_BETWEEN.split(things))
            else:
                excluded.append("people" if match["nobody"] else match["word"])
            return " "

        rest = _PARTS.sub(take, query)
        caption = query if rest == query else " ".join(rest.split())
        return cls(
            caption,
            terms_of(caption if caption.strip() else " ".join(quoted)),
            tuple(dict.fromkeys(filter(None, map(fold, quoted)))),
            tuple(dict.fromkeys(text.strip() for text in excluded if fold(text))),
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


def terms_in(texts: Texts, terms: Sequence[ResolvedTerm]) -> dict[int, Matched]:
    """Return the texts of each image, each with the positions of the terms that it contains."""
    folded = [term.text.join(SPACES[term.form]) for term in terms]

    def positions(text: str) -> set[int]:
        padded = f" {fold(text)} "
        return {at for at, term in enumerate(folded) if term in padded}

    return {
        id_: [(text, positions(text.text)) for text in of_image] for id_, of_image in texts.items()
    }


def excerpts(matched: Matched, terms: Sequence[ResolvedTerm]) -> list[dict[str, str]]:
    """Return the texts with the terms: repeatedly the one with most of the missing terms."""
    missing, chosen = set(range(len(terms))), list[dict[str, str]]()
    while matched and missing and len(chosen) < _MAX_TEXTS:
        text, found = max(matched, key=lambda pair: len(missing & pair[1]))
        if not missing & found:
            break
        excerpt = _snippet(text.text, [terms[at] for at in sorted(missing)])
        chosen.append({"where": text.source, "text": excerpt})
        missing -= found
    return chosen


def _snippet(text: str, terms: Sequence[ResolvedTerm]) -> str:
    """Return the part of a text around the first word of one of the terms."""
    if len(text) <= _SNIPPET:
        return text
    at = next(_positions(text, terms), 0)
    start = max(0, at - _SNIPPET // 3)
    end = start + _SNIPPET
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _positions(text: str, terms: Sequence[ResolvedTerm]) -> Iterator[int]:
    """Yield the positions of words that contain the first word of a term."""
    at = 0
    for word in text.split(" "):
        folded = fold(word)
        if folded and any(term.text.split()[0] in folded for term in terms):
            yield at
        at += len(word) + 1


def is_hangul(letter: str) -> bool:
    """Return whether a letter is a Korean syllable."""
    return "\uac00" <= letter <= "\ud7a3"


def _letter_or_space(character: str) -> str:
    return character if unicodedata.category(character)[0] in "LNM" else " "
