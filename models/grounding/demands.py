"""Demands of a text: the coordinates of the things that it names.

A table lists phrases of up to three words. A phrase that names a class, or something above
classes, demands it and everything above it. A phrase that names something beside the classes
("giraffe") demands weakly what it is a kind of. The table also lists nouns that demand nothing. A
noun right before another noun ("cat food") demands nothing, and no noun does after "toy" and the
like, or after "no" and "without".

A text that is one taught word demands its own coordinate, and the classes below it only where they
show most of what it names. Longer texts demand taught words faintly, and are judged by the learned
part, which has read all of them.

A word with several senses ("crane") has a list of senses, each with a domain. Other words of the
text can be cues of domains ("wades", "nest"). The sense whose domain has the most cues is chosen.
Among equals, or without cues, the first of the list is chosen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hasse.models.vocabulary import forms, words

LONGEST = 3  # words of a phrase
# Factors of the demand of a phrase beside the classes, and of a phrase in a longer text: a thing
# in a scene need not fill the picture.
BESIDE, WITHIN = 0.4, 0.3
# Demand of what follows from a taught word: enough for a premise, next to none for a picture.
FAINT = 0.01
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


class TaughtWord(NamedTuple):
    """A word whose evidence was learned from pictures.

    Attributes:
        own: its coordinate.
        row: the row in the table: its coordinate, and those of what follows from it.
        by_classes: whether the classes of the row are demanded too.
        is_noun: whether it can be part of a longer noun; verbs and adjectives cannot.
    """

    own: int
    row: int
    by_classes: bool
    is_noun: bool


class Told(NamedTuple):
    """The coordinates that are evidence of a thing.

    Attributes:
        taught: words that were learned from pictures; the best of them counts.
        classes: sets of classes; the least of them counts.
    """

    taught: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()


class Unit(NamedTuple):
    """A word or phrase of a text that says something.

    Attributes:
        start, end: its words.
        is_noun: whether it is a thing of its own, not "cat" of "cat food".
        told: its evidence; None where no coordinate tells it.
        above: the evidence of what it is a kind of, where it has none of its own.
    """

    start: int
    end: int
    is_noun: bool = False
    told: Told | None = None
    above: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    coordinates: tuple[int, ...]
    is_beside: bool
    is_alone: bool = True  # neither negated nor an imitation, nor part of a longer noun

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
        senses: the senses of words that have several, the likeliest first.
        cues: the domains of each cue.
        taught_words: phrases whose evidence was learned from pictures.
        learned: the number of their coordinates, which are the last ones.
        kinds: of nouns above taught ones, the coordinates of those.
        general: of nouns without evidence, the nearest one above them that has some.
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
    taught_words: Mapping[str, TaughtWord] = field(default_factory=dict)
    learned: int = 0
    kinds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    general: Mapping[str, str] = field(default_factory=dict)

    def of(self, text: str) -> Demand:
        """Return the demand of a text."""
        text_words = words(text)
        content = [at for at, word in enumerate(text_words) if word not in self.skipped]
        row = np.zeros(self.size, np.float32)
        whole = " ".join(text_words[content[0] : content[-1] + 1]) if content else ""
        only = None if _NEGATIONS.intersection(text_words) else self.taught_words.get(whole)
        if only is not None:
            at = np.array(self.rows[only.row])
            row[at] = FAINT
            row[at[(at < self.size - self.learned) & only.by_classes]] = 1
            row[only.own] = 1
            return Demand(row, names_things=True)
        spans = list(self._spans(text_words))
        covered = _positions(span for span in spans if span.is_class)
        names_things = bool(covered) and covered.issuperset(content)
        for span in spans:
            at = np.array(span.coordinates, np.int64)
            level = np.where(at < self.size - self.learned, BESIDE if span.is_beside else 1, FAINT)
            row[at] = np.maximum(row[at], level)
        for _, _, taught in self._taught(text_words, {span.start for span in spans}):
            at = np.array(self.rows[taught.row])
            row[at] = np.maximum(row[at], FAINT)
        return Demand(row if names_things else row * np.float32(WITHIN), names_things)

    def units(self, text_words: list[str]) -> list[Unit]:
        """Return what the words of a text say, in their order; see `reading`."""
        spans = {span.start: span for span in self._spans(text_words)}
        taught = {start: (end, word) for start, end, word in self._taught(text_words, set(spans))}
        units: list[Unit] = []
        at = 0
        while at < len(text_words):
            span, (end, word) = spans.get(at), taught.get(at, (at, None))
            if span is not None and span.end > end:
                end, word = span.end, None
            elif span is not None and span.end < end:
                span = None
            if end > at or text_words[at] not in self.skipped - _NEGATIONS:
                units.append(self._unit(text_words, at, max(end, at + 1), span, word))
            at = max(end, at + 1)
        return units

    def _unit(
        self,
        text_words: list[str],
        start: int,
        end: int,
        span: _Span | None,
        word: TaughtWord | None,
    ) -> Unit:
        if span is not None and not span.is_alone:
            return Unit(start, end)
        spellings = tuple(self._spellings(" ".join(text_words[start:end]), end - start))
        told = self._told(spellings, span, word)
        if told:
            return Unit(start, end, span is not None or word is None or word.is_noun, told)
        over = next((self.general[one] for one in spellings if one in self.general), None)
        above = [] if over is None or (known := self.told(over)) is None else [known]
        if span is not None and span.is_beside:
            above.append(Told((), self._classes(span)))
        return Unit(start, end, span is not None or bool(above), None, tuple(above))

    def told(self, phrase: str) -> Told | None:
        """Return the evidence of a word or phrase by itself."""
        text_words = phrase.split()
        span = self._longest(text_words, 0)
        if span is not None and span.end < len(text_words):
            span = None
        return self._told((phrase,), span, self.taught_words.get(phrase))

    def _told(
        self, spellings: Sequence[str], span: _Span | None, word: TaughtWord | None
    ) -> Told | None:
        kinds = next((self.kinds[one] for one in spellings if one in self.kinds), ())
        own = kinds if word is None else (word.own,)
        classes = () if span is None or span.is_beside else self._classes(span)
        return Told(own, classes) if own or classes else None

    def _classes(self, span: _Span) -> tuple[int, ...]:
        return tuple(at for at in span.coordinates if at < self.size - self.learned)

    def _taught(
        self, text_words: list[str], nouns: set[int]
    ) -> Iterator[tuple[int, int, TaughtWord]]:
        """Yield the taught words of a text that are there, with the words where they stand.

        `nouns` are where other nouns start.
        """
        at, is_negated = 0, False
        while at < len(text_words):
            is_negated |= text_words[at] in _NEGATIONS
            ends = range(min(at + LONGEST, len(text_words)), at, -1)
            phrases = ((end, " ".join(text_words[at:end])) for end in ends)
            end, phrase = next(
                (one for one in phrases if one[1] in self.taught_words), (at + 1, "")
            )
            if phrase:
                taught = self.taught_words[phrase]
                is_imitation = bool(at) and text_words[at - 1] in _IMITATIONS
                is_modifier = taught.is_noun and end in nouns
                if not (is_negated or is_imitation or is_modifier):
                    yield at, end, taught
            if phrase or at in nouns:
                is_negated = False
            at = end

    def phrases(self, text: str) -> list[Phrase]:
        """Return the phrases of a text that demand classes, each once, in their order."""
        text_words, first = words(text), self.size - self.learned
        phrases = (
            Phrase(
                " ".join(text_words[span.start : span.end]),
                tuple(at for at in span.coordinates if at < first),
                span.is_beside,
            )
            for span in self._spans(text_words)
        )
        return list(dict.fromkeys(phrase for phrase in phrases if phrase.coordinates))

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
                span = _Span(span.start, span.end, (), False, is_alone=False)
            spans.append(span)
            is_negated, at = False, span.end
        for span, next_span in zip_longest(spans, spans[1:]):
            is_modifier = next_span is not None and next_span.start == span.end
            yield _Span(span.start, span.end, (), False, is_alone=False) if is_modifier else span

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
                "senses": self.senses,
                "cues": self.cues,
                "taught_words": self.taught_words,
                "learned": self.learned,
                "kinds": self.kinds,
                "general": self.general,
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
        kinds = {str(word): tuple(map(int, at)) for word, at in document.get("kinds", {}).items()}
        general = {str(word): str(above) for word, above in document.get("general", {}).items()}
        learned = int(document.get("learned", 0))
        taught_words = {
            str(word): TaughtWord(int(own), int(row), bool(by_classes), bool(is_noun))
            for word, (own, row, by_classes, is_noun) in document.get("taught_words", {}).items()
        }
        own = (*(word.own for word in taught_words.values()), *chain.from_iterable(kinds.values()))
        if any(not size - learned <= at < size for at in own) or any(
            not 0 <= word.row < len(rows) for word in taught_words.values()
        ):
            raise ValueError("a taught word has no coordinate or no row")
        return cls(
            size,
            rows,
            classes,
            beside,
            nouns,
            skipped,
            frozenset(vocabulary),
            senses,
            cues,
            taught_words,
            learned,
            kinds,
            general,
        )


def _positions(spans: Iterable[_Span]) -> set[int]:
    """Return the positions of the words of spans."""
    return {at for span in spans for at in range(span.start, span.end)}
