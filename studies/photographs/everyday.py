"""Everyday words of captions: nouns, verbs, adjectives and nouns of two words, in all their forms.

Each form of a word belongs to one lemma with one part of speech, whatever stands around it, so that
what is learned for "ride" is demanded by "riding".
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from hasse.studies.photographs.classes import EMPTY
from hasse.studies.wordnet.lexicon import Lexicon
from hasse.studies.wordnet.phrases import VAGUE
from hasse.studies.wordnet.words import DETERMINERS, FUNCTION_WORDS, word_set

Lemma = tuple[str, str]  # with its part of speech: "noun", "verb" or "adj"
Item = TypeVar("Item", bound=Hashable)

# Words that no picture shows, or all do.
_WITHOUT_CONTENT = VAGUE | word_set(
    """
    have be do go get come use make take let include other different several many such own same more
    most first last new
    """
)
_TOKEN = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class EverydayWords:
    """Reads the lemmas of captions, by WordNet."""

    lexicon: Lexicon
    _lemmas: dict[str, Lemma | None] = field(default_factory=dict)
    _compounds: dict[tuple[str, str], Lemma | None] = field(default_factory=dict)

    def lemma(self, word: str) -> Lemma | None:
        """Return the lemma of a form; None for a word without content."""
        if word not in self._lemmas:
            self._lemmas[word] = self._lemma(word)
        return self._lemmas[word]

    def compound(self, first: str, second: str) -> Lemma | None:
        """Return the lemma of two words that WordNet knows together as a noun, or None."""
        pair = first, second
        if pair not in self._compounds:
            self._compounds[pair] = self._compound(first, second)
        return self._compounds[pair]

    def forms(self, caption: str) -> dict[str, Lemma]:
        """Return the forms of a caption that have a lemma, also of two words."""
        read = _TOKEN.findall(caption.lower())
        found = {word: lemma for word in read if (lemma := self.lemma(word)) is not None}
        for first, second in pairwise(read):
            lemma = self.compound(first, second)
            if lemma is not None:
                found[f"{first} {second}"] = lemma
        return found

    def general(self, lemmas: Iterable[Lemma]) -> dict[Lemma, set[Lemma]]:
        """Return the given lemmas that hold of whatever each of them holds of.

        A noun is a kind of all nouns whose first sense is above its own first sense, and a noun of
        two words a kind of the second.
        """
        known = set(lemmas)
        direct: dict[Lemma, set[Lemma]] = {}
        for name, part in known:
            if part != "noun":
                continue
            above = set(self.above(name))
            if " " in name and (head := self.lemma(name.split(" ")[-1])) is not None:
                above.add(head)
            direct[name, part] = (above & known) - {(name, part)}
        return closure(direct)

    def above(self, name: str) -> Iterable[Lemma]:
        """Yield the nouns whose first sense is that of a noun, or above it."""
        lexicon, nouns = self.lexicon, self.lexicon.senses["noun"]
        senses = nouns.get(name.replace(" ", "_"), ())
        for synset in lexicon.kinds(senses[0]) if senses else ():
            for word in lexicon.words[synset]:
                if word not in EMPTY and nouns.get(word, ("",))[0] == synset:
                    yield word.replace("_", " "), "noun"

    def _lemma(self, word: str) -> Lemma | None:
        if len(word) < 2 or word in FUNCTION_WORDS | DETERMINERS | _WITHOUT_CONTENT:
            return None
        noun, verb, adjective = (
            self.lexicon.frequency(word, part) for part in ("noun", "verb", "adj")
        )
        of_verb = self.lexicon.base(word, "verb")
        if of_verb not in {None, word, *_WITHOUT_CONTENT}:
            acts = word.endswith("ing") and noun <= 2 * verb
            acts |= word.endswith("ed") and len(word) > 4 and noun <= verb and adjective < 4 * verb
            if acts:
                return str(of_verb), "verb"
        if noun and noun >= 0.7 * max(verb, adjective):
            return self._singular(word), "noun"
        if adjective and adjective >= verb:
            return word, "adj"
        return None if of_verb in {None, *_WITHOUT_CONTENT} else (str(of_verb), "verb")

    def _singular(self, word: str) -> str:
        """Return the base form of a noun; "shoes" is one in WordNet too, and is "shoe" here."""
        base = str(self.lexicon.base(word, "noun"))
        stem = word[:-1]
        if base == word and word.endswith("s") and not word.endswith("ss"):
            frequency = self.lexicon.frequency
            if stem in self.lexicon.senses["noun"] and frequency(stem, "noun") > frequency(
                word, "noun"
            ):
                return stem
        return base

    def _compound(self, first: str, second: str) -> Lemma | None:
        head = self.lemma(second)
        if self.lemma(first) is None or head is None or head[1] != "noun":
            return None
        base = self.lexicon.base(f"{first}_{second}", "noun")
        if base is None and f"{first}_{head[0]}" in self.lexicon.senses["noun"]:
            base = f"{first}_{head[0]}"
        return None if base is None else (base.replace("_", " "), "noun")


def closure(direct: Mapping[Item, set[Item]]) -> dict[Item, set[Item]]:
    """Return the transitive closure of a relation, without pairs of an item with itself."""
    closed = {item: set(above) for item, above in direct.items()}
    changed = True
    while changed:
        changed = False
        for item, above in closed.items():
            wider = above.union(*(closed.get(one, set()) for one in above)) - {item}
            changed |= wider != above
            closed[item] = wider
    return closed
