"""Pairs of texts of which one follows from the other or not, by WordNet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasse.models.calibration import Judge
from hasse.models.embedding_model import Points
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.models.grounding.part_scores import PartScores
from hasse.service.verdict import SHOWS
from hasse.studies.photographs.classes import EMPTY, article
from hasse.studies.photographs.part_calibration import Judged, fit_scores
from hasse.studies.photographs.things import Things

TEXT_PAIRS = 1600  # to calibrate whether texts follow from texts

_LOOKS = ("brown", "small", "white", "old", "big", "black", "wet", "red")
_PLACES = (
    "on a beach",
    "in a garden",
    "on the street",
    "in the snow",
    "near a lake",
    "in a room",
    "on the grass",
    "at night",
)


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts, and whether the second follows from the first."""

    premise: str
    hypothesis: str
    follows: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Nouns:
    """Nouns of one word that demand classes in one sense, with it and the nouns above each."""

    senses: Mapping[str, str]
    above: Mapping[str, Sequence[str]]
    things: Things

    @classmethod
    def of(cls, model: GroundedModel, things: Things) -> Nouns:
        """Collect the nouns that WordNet's own texts use."""
        lexicon = things.lexicon
        senses = {}
        for word in model.demands.classes:
            used = lexicon.counts.get((word, "noun"), 0) > 0
            if used and word in lexicon.senses["noun"] and word not in model.demands.senses:
                shown = (one for one in lexicon.senses["noun"][word] if one in things.below)
                named = (one for one in shown if lexicon.words[one][0] not in EMPTY)
                sense = next((one for one in named if not things.is_person(one)), None)
                if sense is not None and len(word) > 2:
                    senses[word] = sense
        words: dict[str, list[str]] = {}
        for word, sense in senses.items():
            words.setdefault(sense, []).append(word)
        above = {
            word: [
                other
                for one in lexicon.kinds(sense)
                if one != sense
                for other in words.get(one, ())
            ]
            for word, sense in senses.items()
        }
        return cls(senses, above, things)

    def follows(self, first: str, second: str) -> bool:
        """Tell whether whatever is the first is the second."""
        return self.senses[second] in self.things.lexicon.kinds(self.senses[first])

    def halves(self, seed: int = 0) -> tuple[list[str], list[str]]:
        """Return two halves of the nouns: to calibrate, and to measure."""
        shuffled = sorted(self.senses)
        random.Random(seed).shuffle(shuffled)
        return shuffled[: len(shuffled) // 2], shuffled[len(shuffled) // 2 :]

    def pairs(self, nouns: Sequence[str], count: int, seed: int) -> list[TextPair]:
        """Make pairs of nouns and of phrases built on them, half of which follow."""
        made = self._made(nouns, random.Random(seed))
        return [next(made) for _ in range(count)]

    def _made(self, nouns: Sequence[str], draw: random.Random) -> Iterator[TextPair]:
        with_above = [noun for noun in nouns if self.above[noun]]
        while True:
            noun, other = draw.choice(with_above), draw.choice(nouns)
            if self.follows(noun, other) or self.follows(other, noun):
                continue
            general, near = draw.choice(self.above[noun]), self._beside(noun, nouns, draw) or other
            place, elsewhere = draw.sample(_PLACES, 2)
            long = f"{article(f'{draw.choice(_LOOKS)} {noun}')} {place}"
            one, above = article(noun), article(general)
            unlike = draw.choice((article(near), f"{article(near)} {place}"))
            yield TextPair(one, above, True, "a noun, and one above it")
            yield TextPair(above, one, False, "a noun, and one below it")
            yield TextPair(one, article(near), False, "a noun, and one beside it")
            yield TextPair(long, one, True, "a phrase, and its noun")
            yield TextPair(long, above, True, "a phrase, and a noun above its own")
            yield TextPair(long, f"{above} {place}", True, "the same, in its place")
            yield TextPair(long, unlike, False, "a phrase, and a noun beside its own")
            yield TextPair(long, f"{one} {elsewhere}", False, "a phrase, and another place")

    def _beside(self, noun: str, nouns: Sequence[str], draw: random.Random) -> str | None:
        """Return a noun that has something above it in common with another."""
        own = set(self.above[noun])
        near = [
            one
            for one in nouns
            if own.intersection(self.above[one])
            and not self.follows(one, noun)
            and not self.follows(noun, one)
        ]
        return draw.choice(near) if near else None


def calibrate_texts(model: GroundedModel, pairs: Sequence[TextPair]) -> PartScores:
    """Fit the scores of whether a text follows from another.

    Raises:
        DatasetError: all pairs are of one kind.
    """
    texts = dict.fromkeys(one.hypothesis for one in pairs)
    numbers = {text: number for number, text in enumerate(texts)}
    judged = Judged(
        _premises(model, pairs),
        list(numbers),
        np.arange(len(pairs)),
        np.array([numbers[one.hypothesis] for one in pairs]),
        np.array([one.follows for one in pairs]),
    )
    return fit_scores(model, [judged])


def called_right(
    model: GroundedModel, pairs: Sequence[TextPair], known: PartScores
) -> NDArray[np.bool_]:
    """Return of which pairs the verdict, that the second text follows or not, is right: (P,)."""
    texts = [one.hypothesis for one in pairs]
    judge = Judge(model, known)
    called = judge.probabilities(texts, _premises(model, pairs), ()) >= SHOWS
    return np.asarray(called == [one.follows for one in pairs])


def _premises(model: GroundedModel, pairs: Sequence[TextPair]) -> Points:
    return model.as_premises(model.encode_captions([one.premise for one in pairs]))
