"""Demands of a text: the coordinates of the things that it names.

A table lists phrases of up to three words. A phrase that names a class, or something above
classes, demands it and everything above it. A phrase that names something beside the classes
("giraffe") demands weakly what it is a kind of. The table also lists nouns that demand nothing. A
noun right before another noun ("cat food") demands nothing, and no noun does after "toy" and the
like, or after "no" and "without".

A word with several senses ("crane") has a list of senses, each with a domain. Other words of the
text can be cues of domains ("wades", "nest"). The sense whose domain has the most cues is chosen.
Among equals, or without cues, the first of the list is chosen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.vocabulary import forms, words

LONGEST = 3  # words of a phrase
# Factors of the demand of a phrase beside the classes, and of a phrase in a longer text: a thing
# in a scene need not fill the picture.
BESIDE, WITHIN = 0.4, 0.3
_NEGATIONS = frozenset({"no", "not", "without", "nobody", "never"})
_IMITATIONS = frozenset(
    {"toy", "stuffed", "fake", "plastic", "rubber", "painted", "wooden", "ceramic", "statue"}
    | {"inflatable", "like"}
)

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a text.

    Attributes:
        row: (K,), between 0 and 1.
        names_things: whether the text only names things that are classes or above them.
    """

    row: Row
    names_things: bool


class Phrase(NamedTuple):
    """A phrase of a text that names a thing, and the coordinates that it demands."""

    text: str
    coordinates: tuple[int, ...]
    is_beside: bool


class Sense(NamedTuple):
    """A sense of a word.

    Attributes:
        row: the row in the table, with its coordinates.
        is_beside: whether it is beside the classes.
        domain: its domain, for the cues among other words.
    """

    row: int
    is_beside: bool
    domain: str


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    coordinates: tuple[int, ...]
    is_beside: bool

    @property
    def is_class(self) -> bool:
        return bool(self.coordinates) and not self.is_beside


@dataclass(frozen=True, slots=True)
class Demands:
    """The table of phrases.

    Attributes:
        size: K, the number of coordinates.
        rows: lists of coordinates, which phrases demand.
        classes: the row of each phrase that names a class or something above classes.
        beside: the row of each phrase beside the classes.
        nouns: phrases that demand nothing.
        skipped: words between things, such as "a" and "on".
        words: single words whose base forms are not looked up: the vocabulary.
        taught: words of captions of pictures that the model learned from; empty if not recorded.
        senses: the senses of words that have several, the likeliest first.
        cues: the domains of each cue.
    """

    size: int
    rows: tuple[tuple[int, ...], ...]
    classes: Mapping[str, int]
    beside: Mapping[str, int]
    nouns: frozenset[str]
    skipped: frozenset[str]
    words: frozenset[str] = frozenset()
    taught: frozenset[str] = frozenset()
    senses: Mapping[str, tuple[Sense, ...]] = field(default_factory=dict)
    cues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, text: str) -> Demand:
        """Return the demand of a text."""
        text_words = words(text)
        spans = list(self._spans(text_words))
        covered = _positions(span for span in spans if span.is_class)
        content = [at for at, word in enumerate(text_words) if word not in self.skipped]
        names_things = bool(covered) and covered.issuperset(content)
        row = np.zeros(self.size, np.float32)
        for span in spans:
            level = BESIDE if span.is_beside else 1.0
            row[list(span.coordinates)] = np.maximum(row[list(span.coordinates)], level)
        return Demand(row if names_things else row * np.float32(WITHIN), names_things)

    def untaught(self, text: str) -> float:
        """Return the share of untaught words in a text; see `TextTraits`."""
        if not self.taught:
            return 0.0
        text_words = words(text)
        spans = list(self._spans(text_words))
        nouns = _positions(spans)
        covered = _positions(span for span in spans if span.is_class)
        content = [at for at, word in enumerate(text_words) if word not in self.skipped]
        count = 0
        for at in set(content) - covered:
            spellings = (text_words[at], *forms(text_words[at]))
            is_unknown = self.words.isdisjoint(spellings)
            count += (at in nouns or is_unknown) and self.taught.isdisjoint(spellings)
        return count / max(1, len(content))

    def phrases(self, text: str) -> list[Phrase]:
        """Return the phrases of a text that demand something, each once, in their order."""
        text_words = words(text)
        phrases = (
            Phrase(" ".join(text_words[span.start : span.end]), span.coordinates, span.is_beside)
            for span in self._spans(text_words)
            if span.coordinates
        )
        return list(dict.fromkeys(phrases))

    def _spans(self, text_words: list[str]) -> Iterator[_Span]:
        """Yield the phrases of a text; phrases without a demand have no coordinates."""
        spans: list[_Span] = []
        at, is_negated = 0, False
        while at < len(text_words):
            if text_words[at] in _NEGATIONS:
                is_negated, at = True, at + 1
                continue
            span = self._longest(text_words, at)
            if span is None:
                at += 1
                continue
            if is_negated or (at and text_words[at - 1] in _IMITATIONS):
                span = _Span(span.start, span.end, (), False)
            spans.append(span)
            is_negated, at = False, span.end
        for span, next_span in zip_longest(spans, spans[1:]):
            is_modifier = next_span is not None and next_span.start == span.end
            yield _Span(span.start, span.end, (), False) if is_modifier else span

    def _longest(self, text_words: list[str], at: int) -> _Span | None:
        for end in range(min(at + LONGEST, len(text_words)), at, -1):
            if text_words[at] in self.skipped or text_words[end - 1] in self.skipped:
                continue
            phrase = " ".join(text_words[at:end])
            for spelling in self._spellings(phrase, end - at):
                if spelling in self.senses:
                    sense = self._sense(
                        self.senses[spelling], [*text_words[:at], *text_words[end:]]
                    )
                    return _Span(at, end, self.rows[sense.row], sense.is_beside)
                if spelling in self.classes:
                    return _Span(at, end, self.rows[self.classes[spelling]], False)
                if spelling in self.beside:
                    return _Span(at, end, self.rows[self.beside[spelling]], True)
                if spelling in self.nouns:
                    return _Span(at, end, (), False)
        return None

    def _spellings(self, phrase: str, count: int) -> Iterable[str]:
        if count > 1 or phrase in self.words or not (phrase.isascii() and phrase.isalpha()):
            return (phrase,)
        return (phrase, *forms(phrase))

    def _sense(self, senses: tuple[Sense, ...], context: list[str]) -> Sense:
        """Return the sense of a word whose domain has the most cues around it."""
        cue_counts = Counter(domain for word in set(context) for domain in self._domains(word))
        return max(senses, key=lambda sense: cue_counts[sense.domain])  # the first of equal ones

    def _domains(self, word: str) -> tuple[str, ...]:
        spellings = (word, *forms(word)) if word.isascii() and word.isalpha() else (word,)
        return next((self.cues[spelling] for spelling in spellings if spelling in self.cues), ())

    def to_bytes(self) -> bytes:
        """Return the table as JSON, without `words`."""
        return json.dumps(
            {
                "size": self.size,
                "rows": self.rows,
                "classes": self.classes,
                "beside": self.beside,
                "nouns": sorted(self.nouns),
                "skipped": sorted(self.skipped),
                "taught": sorted(self.taught),
                "senses": self.senses,
                "cues": self.cues,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, document: Mapping[str, Any], vocabulary: Iterable[str]) -> Self:
        """Read the result of `to_bytes`; raises KeyError, TypeError or ValueError.

        Args:
            vocabulary: the words of captions.
        """
        size, rows = int(document["size"]), tuple(tuple(map(int, row)) for row in document["rows"])
        if any(not 0 <= at < size for row in rows for at in row):
            raise ValueError(f"a phrase demands a coordinate that is not among the {size}")
        classes, beside = (
            {str(phrase): int(row) for phrase, row in document[name].items()}
            for name in ("classes", "beside")
        )
        senses = {
            str(word): tuple(
                Sense(int(row), bool(beside), str(name)) for row, beside, name in values
            )
            for word, values in document.get("senses", {}).items()
        }
        sense_rows = {sense.row for values in senses.values() for sense in values}
        if any(
            not 0 <= row < len(rows) for row in (*classes.values(), *beside.values(), *sense_rows)
        ):
            raise ValueError("a phrase names a row that is not there")
        nouns, skipped = frozenset(document["nouns"]), frozenset(document["skipped"])
        cues = {
            str(word): tuple(map(str, values)) for word, values in document.get("cues", {}).items()
        }
        known, taught = frozenset(vocabulary), frozenset(document.get("taught", ()))
        return cls(size, rows, classes, beside, nouns, skipped, known, taught, senses, cues)


def _positions(spans: Iterable[_Span]) -> set[int]:
    """Return the positions of the words of spans."""
    return {at for span in spans for at in range(span.start, span.end)}
