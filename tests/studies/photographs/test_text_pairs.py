"""Pairs of texts, by WordNet."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from hasse.studies.photographs.text_pairs import Nouns, TextPair, called_right
from hasse.studies.photographs.things import Things, Usage
from hasse.studies.wordnet.lexicon import Lexicon

KINDS = {"poodle": "dog", "dog": "animal", "cat": "animal", "animal": "", "car": "vehicle"}
KINDS |= {"vehicle": "", "bus": "vehicle"}


def nouns() -> Nouns:
    above = {word: (kind,) if kind else () for word, kind in KINDS.items()}
    lexicon = Lexicon({}, {}, {}, {word: (word,) for word in KINDS}, above, {})
    things = Things(lexicon, Usage.of([]), (), {}, (), {})
    general = {word: [one for one in lexicon.kinds(word) if one != word] for word in KINDS}
    return Nouns({word: word for word in KINDS}, general, things)


def test_half_of_the_pairs_follow_and_the_other_half_do_not() -> None:
    pairs = nouns().pairs(sorted(KINDS), 160, seed=0)
    assert sum(pair.follows for pair in pairs) == 80
    assert len({pair.premise for pair in pairs}) > 20
    for kind in {pair.kind for pair in pairs}:
        assert len({pair.follows for pair in pairs if pair.kind == kind}) == 1


def test_single_nouns_follow_exactly_where_wordnet_says_so() -> None:
    found = nouns()
    for pair in found.pairs(sorted(KINDS), 160, seed=1):
        first, second = pair.premise.split(), pair.hypothesis.split()
        if len(first) == len(second) == 2:
            assert pair.follows == found.follows(first[1], second[1])


def test_the_same_seed_makes_the_same_pairs_and_halves_share_no_noun() -> None:
    found = nouns()
    assert found.pairs(sorted(KINDS), 40, seed=3) == found.pairs(sorted(KINDS), 40, seed=3)
    first, second = found.halves()
    assert not set(first) & set(second)


def test_a_verdict_is_right_where_it_says_of_a_pair_what_is_so() -> None:
    class Numbers:
        """Texts are numbers; one follows from all that are at least as large."""

        def encode_captions(self, texts: list[str]) -> Any:
            return np.array([[float(text)] for text in texts])

        def as_premises(self, points: Any) -> Any:
            return points

        def log_odds(self, scores: Any, texts: list[str], premises: Any) -> Any:
            return premises[:, 0] - np.array([float(text) for text in texts])

    model, known = cast(Any, Numbers()), cast(Any, None)
    pairs = [TextPair("2", "1", True), TextPair("1", "2", False), TextPair("1", "3", True)]
    right = called_right(model, pairs, known)
    assert right.tolist() == [True, True, False]
