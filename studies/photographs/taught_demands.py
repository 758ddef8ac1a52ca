"""What texts demand of a grounded model with taught words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hasse.models.grounding.demands import Demands, TaughtWord
from hasse.studies.photographs.chain_making import usual_hypernym
from hasse.studies.photographs.classes import EMPTY
from hasse.studies.photographs.everyday import closure
from hasse.studies.photographs.teaching import Taught
from hasse.studies.photographs.things import Classes, Things
from hasse.studies.wordnet.lexicon import Lexicon

_LEAST_CLASSES = 5  # below a noun, which show most of what it names


def with_taught(demands: Demands, taught: Taught, things: Things) -> Demands:
    """Return demands with the coordinates of taught words behind those of the sets of classes.

    A form of a taught word demands the word, the classes below it where they are enough, and
    faintly all that follows from it. A class implies the taught words above it.
    """
    first = demands.size
    rows = {row: at for at, row in enumerate(demands.rows)}
    named: dict[str, list[int]] = {}  # taught nouns by their synset
    for at, lemma in enumerate(taught.lemmas):
        name, part = lemma.rsplit("/", 1)
        if part == "noun" and (synset := _sense(name, things)) is not None:
            named.setdefault(synset, []).append(at)

    def row_of(classes: Classes, own: list[int]) -> int:
        row = (*classes, *(first + at for at in sorted(set(own))))
        return rows.setdefault(row, len(rows))

    def above(noun: str) -> list[int]:
        synset = _sense(noun, things)
        over = () if synset is None else things.lexicon.kinds(synset)
        return [at for one in over for at in named.get(one, ())]

    phrases = {
        phrase: row_of(demands.rows[at], above(phrase)) for phrase, at in demands.classes.items()
    }
    kinds: dict[int, list[int]] = {}
    for general, kind in taught.kinds.tolist():
        kinds.setdefault(kind, []).append(general)
    taught_words = {}
    for form, at in taught.forms.items():
        name, part = taught.lemmas[at].rsplit("/", 1)
        known = demands.classes.get(form, demands.beside.get(form))
        if form in demands.senses:
            known = demands.senses[form][0].row
        row = row_of(
            () if known is None else demands.rows[known],
            [at, *kinds.get(at, ()), *(above(name) if part == "noun" else ())],
        )
        by_classes = form in demands.classes and _shown_by_classes(name, things)
        taught_words[form] = TaughtWord(first + at, row, by_classes, part == "noun")
    found = replace(
        demands,
        size=first + len(taught.lemmas),
        rows=tuple(rows),
        classes=phrases,
        taught_words=taught_words,
        learned=len(taught.lemmas),
    )
    return _with_order(found, taught, things.lexicon)


def ordered(taught: Taught, lexicon: Lexicon) -> Taught:
    """Return taught words of which each is a kind of its nearest usual hypernym too."""
    nouns = {
        name: at
        for at, lemma in enumerate(taught.lemmas)
        for name, part in (lemma.rsplit("/", 1),)
        if part == "noun"
    }
    above: dict[int, set[int]] = {}
    for general, kind in taught.kinds.tolist():
        above.setdefault(kind, set()).add(general)
    for name, at in nouns.items():
        if (over := nouns.get(usual_hypernym(name, lexicon) or "", at)) != at:
            above.setdefault(at, set()).add(over)
    closed = closure(above)
    kinds = [(over, at) for at in sorted(closed) for over in sorted(closed[at])]
    return replace(taught, kinds=np.array(kinds, np.int32).reshape(-1, 2))


def _with_order(demands: Demands, taught: Taught, lexicon: Lexicon) -> Demands:
    """Return demands that know which nouns are kinds of which, for the order of probabilities.

    A noun that was not taught has the evidence of its taught kinds. One without evidence is at most
    as probable as the nearest one above it that has some.
    """
    first, senses = demands.size - demands.learned, lexicon.senses["noun"]
    below: dict[int, set[int]] = {}
    for general, kind in taught.kinds.tolist():
        below.setdefault(first + general, set()).add(first + kind)
    found: dict[str, set[int]] = {}
    for at, lemma in enumerate(taught.lemmas, start=first):
        name, part = lemma.rsplit("/", 1)
        own = senses.get(name.replace(" ", "_"), ()) if part == "noun" else ()
        usual = usual_hypernym(name, lexicon)
        above = {
            word.replace("_", " ")
            for synset in (lexicon.kinds(own[0]) if own else ())
            for word in lexicon.words[synset]
            # A noun without evidence of its own has that of its kinds in any of its senses.
            if word not in EMPTY and (word not in demands.classes or senses[word][0] == synset)
        }
        for phrase in {*above, *([usual] if own and usual else ())}:
            if phrase not in demands.taught_words and _is_known(phrase, demands):
                found.setdefault(phrase, set()).update({at}, below.get(at, ()))
    demands = replace(demands, kinds={word: tuple(sorted(at)) for word, at in found.items()})

    phrases = (
        phrase
        for phrase in sorted({*demands.beside, *demands.nouns})
        if _is_known(phrase, demands) and demands.told(phrase) is None
    )
    nearest = {
        phrase: next((noun for noun in _above(phrase, lexicon) if demands.told(noun)), None)
        for phrase in phrases
    }
    general = {phrase: noun for phrase, noun in nearest.items() if noun is not None}
    return replace(demands, general=general)


def _above(noun: str, lexicon: Lexicon) -> list[str]:
    """Return the usual words for what a noun is a kind of, the nearest first."""
    base = (lexicon.base(noun.replace(" ", "_"), "noun") or noun).replace("_", " ")
    found: list[str] = []
    while (above := usual_hypernym(base, lexicon)) is not None and above not in {*found, noun}:
        found.append(above)
        base = above
    return found


def _is_known(phrase: str, demands: Demands) -> bool:
    return demands.words.issuperset(phrase.split(" "))


def _sense(noun: str, things: Things) -> str | None:
    """Return the synset of a noun: its first sense with classes below it, or else its first."""
    lexicon = things.lexicon
    base = lexicon.base(noun.replace(" ", "_"), "noun")
    senses = [
        one for one in lexicon.senses["noun"].get(base or "", ()) if not things.is_person(one)
    ]
    shown = (one for one in senses if one in things.below)
    every = lexicon.senses["noun"].get(base or "", ())
    return next(
        (one for one in shown if lexicon.words[one][0] not in EMPTY), every[0] if every else None
    )


def _shown_by_classes(noun: str, things: Things) -> bool:
    """Return whether the classes below the first sense of a noun show most of what it names."""
    senses = things.lexicon.senses["noun"].get(noun.replace(" ", "_"), ())
    below = things.below.get(senses[0], ()) if senses else ()
    return bool(senses) and (len(below) >= _LEAST_CLASSES or senses[0] in things.classes)
