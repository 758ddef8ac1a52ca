"""Things that a classifier sees, and the words that name them, by WordNet.

Coordinates are sets of ImageNet's classes. Some are synsets that captions and WordNet's texts name
often, with all classes below them. The others are codes: each class is in three of them, drawn so
that they are of like size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hasse.models.grounding.demands import LONGEST, Demands, Sense
from hasse.models.vocabulary import words
from hasse.studies.photographs.classes import EMPTY
from hasse.studies.photographs.senses import DOMAINS, LISTED
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.words import DETERMINERS, FUNCTION_WORDS, word_set

SYNSETS, CODES, OF_A_CLASS = 240, 144, 3  # coordinates of either kind; codes of each class
PERSON = "00007846"  # classes show three kinds of persons, which say nothing of the others
_TRIES = 8  # draws of codes for a class, of which the least filled are taken
_MOST_STEPS = 6  # from a thing beside the classes up to what classes are kinds of
_LEAST_NAMED = 15  # of 100 uses of a noun that follow a determiner or an adjective
_DESCRIBED = DETERMINERS | word_set("of with small large big little")
SKIPPED = FUNCTION_WORDS | DETERMINERS

Classes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """How captions use words: how often each, pairs of them, and after a describing word."""

    words: Counter[str]
    pairs: Counter[tuple[str, str]]
    described: Counter[str]

    @classmethod
    def of(cls, captions: Iterable[str]) -> Usage:
        """Count the words of captions."""
        single: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for caption in captions:
            read = words(caption)
            single.update(read)
            pairs.update(pairwise(read))
        described: Counter[str] = Counter()
        for (first, second), times in pairs.items():
            if first in _DESCRIBED:
                described[second] += times
        return cls(single, pairs, described)

    def times(self, lemma: str) -> int:
        """Return how often a lemma of WordNet is named."""
        parts = lemma.split("_")
        if len(parts) == 1:
            return self.words[lemma] + self.words[f"{lemma}s"]
        return self.pairs[parts[0], parts[1]] if len(parts) == 2 else 0


@dataclass(frozen=True, slots=True)
class Things:
    """Synsets with classes below them, and the coordinates that stand for them.

    Attributes:
        classes: the synsets of the classes, in the order of the classifier.
        below: the numbers of the classes below each synset that has some, rising.
        sets: the coordinates.
        codes: the coordinates that are the codes of each class.
    """

    lexicon: Lexicon
    usage: Usage
    classes: Sequence[str]
    below: Mapping[str, Classes]
    sets: Sequence[Classes]
    codes: Mapping[int, Classes]
    _by_set: Mapping[Classes, int] = field(default_factory=dict)
    _numbers: frozenset[str] = frozenset()
    _persons: dict[str, bool] = field(default_factory=dict)
    _demanded: dict[str, tuple[Classes, bool]] = field(default_factory=dict)

    @classmethod
    def choose(
        cls, lexicon: Lexicon, usage: Usage, classes: Sequence[str], seed: int = 0
    ) -> Things:
        """Choose coordinates for classes.

        Raises:
            KeyError: a class is no synset of the lexicon.
        """
        found: dict[str, list[int]] = {}
        for number, synset in enumerate(classes):
            for one in lexicon.kinds(synset):
                found.setdefault(one, []).append(number)
        below = {synset: tuple(rows) for synset, rows in found.items()}
        begun = cls(lexicon, usage, classes, below, (), {})
        named = sorted(
            {rows: synset for synset, rows in below.items() if begun.is_general(synset)}.values(),
            key=lambda synset: (-begun.frequency(synset), synset),
        )
        sets: list[Classes] = []
        for synset in named:
            if len(sets) < SYNSETS and below[synset] not in sets:
                sets.append(below[synset])
        codes = _codes([n for n, one in enumerate(classes) if not begun.is_person(one)], seed)
        first = len(sets)
        for code in range(CODES):
            sets.append(tuple(number for number, own in codes.items() if code in own))
        of_class = {number: tuple(first + code for code in own) for number, own in codes.items()}
        by_set = {rows: at for at, rows in enumerate(sets[:first])}
        return cls(
            lexicon, usage, classes, below, tuple(sets), of_class, by_set, frozenset(classes)
        )

    def is_person(self, synset: str) -> bool:
        """Tell whether a synset is a kind of person."""
        if synset not in self._persons:
            self._persons[synset] = PERSON in self.lexicon.kinds(synset)
        return self._persons[synset]

    def is_general(self, synset: str) -> bool:
        """Tell whether several classes, and not nearly all, are kinds of a synset with a name."""
        rows = self.below[synset]
        return (
            1 < len(rows) < 0.65 * len(self.classes)
            and self.lexicon.words[synset][0] not in EMPTY
            and not self.is_person(synset)
        )

    def frequency(self, synset: str) -> float:
        """Return how often captions and WordNet's texts name a synset by a usual word."""
        found = 0.0
        for word in self.lexicon.words[synset]:
            senses = self.lexicon.senses["noun"].get(word, ())
            if synset in senses[:2]:
                times = self.usage.times(word) + 2 * self.lexicon.counts.get((word, "noun"), 0)
                found = max(found, (1.0 if senses[0] == synset else 0.3) * (times + 1))
        return found

    def matrix(self) -> NDArray[np.float32]:
        """Return the sets, 1 where a class is in one: (classes, K)."""
        found = np.zeros((len(self.classes), len(self.sets)), np.float32)
        for at, rows in enumerate(self.sets):
            found[list(rows), at] = 1
        return found

    def above(self, synset: str) -> dict[int, int]:
        """Return the coordinates that hold of a synset, each with the steps up to it."""
        found: dict[int, int] = {}
        for one, steps in self.lexicon.kinds(synset).items():
            rows = self.below.get(one, ())
            if rows in self._by_set:
                found.setdefault(self._by_set[rows], steps)
            elif len(rows) == 1:
                for code in self.codes.get(rows[0], ()):
                    found.setdefault(code, steps)
        return found

    def demanded(self, lemma: str) -> tuple[Classes, bool]:
        """Return the coordinates that a noun demands, and whether it is beside the classes.

        Its sense is the first that is above or below a class, or else the first of a thing.
        """
        senses = [one for one in self.lexicon.senses["noun"][lemma] if not self.is_person(one)]
        named = (one for one in senses if one in self.below)
        first = next((one for one in named if self.lexicon.words[one][0] not in EMPTY), None)
        if first is None and not senses:
            return (), False
        return self.demanded_by(senses[0] if first is None else first)

    def demanded_by(self, synset: str) -> tuple[Classes, bool]:
        """Return the coordinates that a synset demands, and whether it is beside the classes."""
        if synset in self.below and self.lexicon.words[synset][0] not in EMPTY:
            return tuple(self.above(synset)), False
        own = [one for one in self.lexicon.kinds(synset) if one in self._numbers]
        if own:
            return tuple(self.above(own[0])), False
        found = self.above(synset)
        near = found and min(found.values()) <= _MOST_STEPS
        return (tuple(found), True) if near else ((), False)

    def beside(self, vocabulary: Iterable[str]) -> dict[str, Classes]:
        """Return nouns of a vocabulary beside the classes, with the classes that they demand."""
        found = {}
        for word in vocabulary:
            lemma = self.lexicon.base(word, "noun") or ""
            coordinates, is_beside = self._of_lemma(lemma)
            if is_beside and self.is_noun(word):
                sets = (set(self.sets[one]) for one in coordinates)
                found[lemma] = tuple(sorted(set.intersection(*sets)))
        return found

    def is_noun(self, word: str) -> bool:
        """Tell whether captions, or else WordNet's texts, use a word mostly as a noun."""
        if self.lexicon.base(word, "noun") is None:
            return False
        noun, *others = (self.lexicon.frequency(word, part) for part in ("noun", "verb", "adj"))
        times, described = self.usage.words[word], self.usage.described[word]
        if times >= 5:
            named = 100 * described >= _LEAST_NAMED * times or noun >= 4 * max(others)
            return named and not (word.endswith("ing") and 2 * described < times)
        return noun >= 0.7 * max(others)

    def demands(
        self,
        vocabulary: Iterable[str],
        without: Collection[str] = (),
    ) -> Demands:
        """Return what the words of a vocabulary and phrases of WordNet demand.

        Args:
            without: lemmas that captions use in another sense, which demand nothing.
        """
        known = list(vocabulary)
        rows: dict[Classes, int] = {}
        classes: dict[str, int] = {}
        beside: dict[str, int] = {}
        nouns: list[str] = []
        phrases = self._phrases(known)
        for phrase, lemma in phrases.items():
            found, is_beside = self._of_lemma("" if lemma in without else lemma)
            is_single = " " not in phrase
            if found and (is_single or not is_beside):
                table = beside if is_beside else classes
                table[phrase] = rows.setdefault(found, len(rows))
            elif is_single:
                nouns.append(phrase)
        senses = self._senses(phrases, rows)
        return Demands(
            len(self.sets),
            tuple(rows),
            classes,
            beside,
            frozenset(nouns),
            SKIPPED,
            frozenset(known),
            senses,
            DOMAINS,
        )

    def _senses(
        self, phrases: Mapping[str, str], rows: dict[Classes, int]
    ) -> dict[str, tuple[Sense, ...]]:
        """Return the senses of phrases, by their lemmas, that have several; adds to the rows."""
        found: dict[str, tuple[Sense, ...]] = {}
        for word, lemma in phrases.items():
            senses = []
            for number, domain in LISTED.get(lemma, ()):
                own: Classes = ()
                is_beside = False
                if number:
                    synset = self.lexicon.senses["noun"][lemma][number - 1]
                    own, is_beside = self.demanded_by(synset)
                senses.append(Sense(rows.setdefault(own, len(rows)), is_beside, domain))
            if senses:
                found[word] = tuple(senses)
        return found

    def _phrases(self, known: Iterable[str]) -> dict[str, str]:
        """Return nouns of a vocabulary, and WordNet's of two or three words, with their lemmas."""
        found = {
            word: self.lexicon.base(word, "noun") or ""
            for word in known
            if word not in SKIPPED and self.is_noun(word)
        }
        for lemma in self.lexicon.senses["noun"]:
            parts = lemma.replace("-", "_").split("_")
            if 1 < len(parts) <= LONGEST and not SKIPPED.intersection((parts[0], parts[-1])):
                found[" ".join(parts)] = lemma
                for ending in ("s", "es"):
                    found.setdefault(" ".join(parts) + ending, lemma)
        return found

    def _of_lemma(self, lemma: str) -> tuple[Classes, bool]:
        """Return what `demanded` does, once for each lemma; nothing of what is none."""
        if lemma not in self.lexicon.senses["noun"]:
            return (), False
        if lemma not in self._demanded:
            self._demanded[lemma] = self.demanded(lemma)
        return self._demanded[lemma]


def _codes(numbers: Sequence[int], seed: int) -> dict[int, Classes]:
    """Draw codes for classes, so that all codes are of about one size."""
    draw = np.random.default_rng(seed)
    filled, found = np.zeros(CODES), {}
    for number in numbers:
        drawn = [np.sort(draw.choice(CODES, OF_A_CLASS, replace=False)) for _ in range(_TRIES)]
        best = min(drawn, key=lambda one: float(filled[one].sum()))
        filled[best] += 1
        found[number] = tuple(best.tolist())
    return found
