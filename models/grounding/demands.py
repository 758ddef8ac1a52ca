"""What a text says is there: the coordinates that its phrases demand.

A table lists phrases of up to three words. A phrase that names a class, or what classes are kinds
of, demands it and all that is above it. One that names something beside the classes ("giraffe")
demands weakly what it is a kind of. Nouns that demand nothing are listed too: a noun right before
another noun only says of what kind that is ("cat food"), so it demands nothing there. The same
holds after "toy" and the like, and after "no" and "without".

A word of several senses ("crane") has them listed, each with a domain. Of the other words of the
text some are cues of domains ("wades", "nest"). The sense of the domain that most of them tell of
is taken, and the one listed first of several such, or where there are no cues.
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
# Of a phrase beside the classes, and of a phrase in a text that says more than the phrase: a
# thing in a scene need not fill it.
BESIDE, WITHIN = 0.4, 0.3
_NEGATIONS = frozenset({"no", "not", "without", "nobody", "never"})
_IMITATIONS = frozenset(
    {"toy", "stuffed", "fake", "plastic", "rubber", "painted", "wooden", "ceramic", "statue"}
    | {"inflatable", "like"}
)

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a text demands.

    Attributes:
        row: (K,), between 0 and 1.
        names_things: whether the text only names things that are classes or above them.
    """

    row: Row
    names_things: bool


class Phrase(NamedTuple):
    """A phrase of a text that names a thing, the coordinates it demands, and how."""

    text: str
    coordinates: tuple[int, ...]
    is_beside: bool


class Sense(NamedTuple):
    """What a word demands in a sense.

    Attributes:
        row: the row of the table of phrases.
        is_beside: whether it is beside the classes.
        domain: what words around it tell of.
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
        size: K, the coordinates.
        rows: coordinates that a phrase demands.
        classes, beside: the row of each phrase that names a class or what is above classes, and of
            each one beside them.
        nouns: phrases that demand nothing.
        skipped: words between things, such as "a" and "on".
        words: single words that are not looked up by their forms.
        senses: of single words, as they are written, that have several; the likeliest comes first.
        cues: the domains that a word around such a one tells of.
    """

    size: int
    rows: tuple[tuple[int, ...], ...]
    classes: Mapping[str, int]
    beside: Mapping[str, int]
    nouns: frozenset[str]
    skipped: frozenset[str]
    words: frozenset[str] = frozenset()
    senses: Mapping[str, tuple[Sense, ...]] = field(default_factory=dict)
    cues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, text: str) -> Demand:
        """Return what a text demands."""
        read = words(text)
        spans = list(self._spans(read))
        covered = {at for span in spans if span.is_class for at in range(span.start, span.end)}
        content = [at for at, word in enumerate(read) if word not in self.skipped]
        names_things = bool(covered) and covered.issuperset(content)
        row = np.zeros(self.size, np.float32)
        for span in spans:
            level = BESIDE if span.is_beside else 1.0
            row[list(span.coordinates)] = np.maximum(row[list(span.coordinates)], level)
        return Demand(row if names_things else row * np.float32(WITHIN), names_things)

    def phrases(self, text: str) -> list[Phrase]:
        """Return the phrases of a text that demand something, each once, in their order."""
        read = words(text)
        found = (
            Phrase(" ".join(read[span.start : span.end]), span.coordinates, span.is_beside)
            for span in self._spans(read)
            if span.coordinates
        )
        return list(dict.fromkeys(found))

    def _spans(self, read: list[str]) -> Iterator[_Span]:
        """Yield the phrases of a text; those that say nothing of what is there have no row."""
        found: list[_Span] = []
        at, negated = 0, False
        while at < len(read):
            if read[at] in _NEGATIONS:
                negated, at = True, at + 1
                continue
            span = self._longest(read, at)
            if span is None:
                at += 1
                continue
            if negated or (at and read[at - 1] in _IMITATIONS):
                span = _Span(span.start, span.end, (), False)
            found.append(span)
            negated, at = False, span.end
        for span, after in zip_longest(found, found[1:]):
            is_modifier = after is not None and after.start == span.end
            yield _Span(span.start, span.end, (), False) if is_modifier else span

    def _longest(self, read: list[str], at: int) -> _Span | None:
        for end in range(min(at + LONGEST, len(read)), at, -1):
            if read[at] in self.skipped or read[end - 1] in self.skipped:
                continue
            phrase = " ".join(read[at:end])
            for form in self._spellings(phrase, end - at):
                if form in self.senses:
                    sense = self._sense(self.senses[form], [*read[:at], *read[end:]])
                    return _Span(at, end, self.rows[sense.row], sense.is_beside)
                if form in self.classes:
                    return _Span(at, end, self.rows[self.classes[form]], False)
                if form in self.beside:
                    return _Span(at, end, self.rows[self.beside[form]], True)
                if form in self.nouns:
                    return _Span(at, end, (), False)
        return None

    def _spellings(self, phrase: str, count: int) -> Iterable[str]:
        if count > 1 or phrase in self.words or not (phrase.isascii() and phrase.isalpha()):
            return (phrase,)
        return (phrase, *forms(phrase))

    def _sense(self, senses: tuple[Sense, ...], around: list[str]) -> Sense:
        """Return the sense that the words around a word tell of."""
        told = Counter(domain for word in set(around) for domain in self._domains(word))
        return max(senses, key=lambda one: told[one.domain])  # the first of equal ones

    def _domains(self, word: str) -> tuple[str, ...]:
        spellings = (word, *forms(word)) if word.isascii() and word.isalpha() else (word,)
        return next((self.cues[one] for one in spellings if one in self.cues), ())

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
                "senses": self.senses,
                "cues": self.cues,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, found: Mapping[str, Any], known: Iterable[str]) -> Self:
        """Read the result of `to_bytes`; raises KeyError, TypeError or ValueError.

        Args:
            known: the words of the vocabulary of captions.
        """
        size, rows = int(found["size"]), tuple(tuple(map(int, row)) for row in found["rows"])
        if any(not 0 <= at < size for row in rows for at in row):
            raise ValueError(f"a phrase demands a coordinate outside the {size} that there are")
        classes, beside = (
            {str(phrase): int(row) for phrase, row in found[name].items()}
            for name in ("classes", "beside")
        )
        senses = {
            str(word): tuple(
                Sense(int(row), bool(beside), str(name)) for row, beside, name in every
            )
            for word, every in found.get("senses", {}).items()
        }
        named = {sense.row for every in senses.values() for sense in every}
        if any(not 0 <= row < len(rows) for row in (*classes.values(), *beside.values(), *named)):
            raise ValueError("a phrase names a row that is not there")
        nouns, skipped = frozenset(found["nouns"]), frozenset(found["skipped"])
        cues = {str(word): tuple(map(str, every)) for word, every in found.get("cues", {}).items()}
        return cls(size, rows, classes, beside, nouns, skipped, frozenset(known), senses, cues)
