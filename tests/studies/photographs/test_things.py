"""Things that classes stand for, and the words that demand them, by a small WordNet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.studies.photographs import things as module
from hasse.studies.photographs.things import CODES, OF_A_CLASS, Things, Usage
from hasse.studies.wordnet.lexicon import Lexicon
from tests.wordnet import write_wordnet

ANIMAL, BIRD, DOG = "00000002", "00000003", "00000006"
CLASSES = (BIRD, DOG, "00000004", "00000005")  # with a branch and autumn


@pytest.fixture
def things(tmp_path: Path) -> Things:
    lexicon = Lexicon.read(write_wordnet(tmp_path / "wordnet"))
    captions = ["a dog and a bird sit on a branch", "the animal runs"] * 5
    return Things.choose(lexicon, Usage.of(captions), CLASSES)


def test_a_synset_above_classes_is_a_coordinate_with_all_of_them(things: Things) -> None:
    assert things.sets[0] == (0, 1)
    assert len(things.sets) == 1 + CODES


def test_each_class_is_in_codes_of_its_own(things: Things) -> None:
    for number in range(len(CLASSES)):
        own = {at for at, rows in enumerate(things.sets) if at and number in rows}
        assert own == set(things.codes[number])
        assert len(own) == OF_A_CLASS
    assert things.matrix().sum() == sum(map(len, things.sets))


def test_a_word_demands_its_class_and_what_is_above_it(things: Things) -> None:
    dog, is_beside = things.demanded("dog")
    assert set(dog) == {0, *things.codes[1]}
    assert not is_beside
    assert things.demanded("animal") == ((0,), False)


def test_phrases_are_found_in_all_forms_unless_they_are_left_out(things: Things) -> None:
    demands = things.demands(["dog", "dogs", "bird", "man", "blue", "sits"], without=["bird"])
    (dog,) = {tuple(demands.of(text).row.nonzero()[0]) for text in ("a dog", "two dogs")}
    assert set(dog) == {0, *things.codes[1]}
    assert set(demands.of("a domestic dog").row.nonzero()[0]) == set(dog)
    assert not demands.of("a bird").row.any()
    assert not demands.of("a blue man sits").row.any()


def test_a_noun_beside_the_classes_is_told_with_the_classes_it_demands(things: Things) -> None:
    beside = Things.choose(things.lexicon, things.usage, (DOG, *CLASSES[2:]))
    assert beside.beside(["bird", "birds", "dog", "blue", "unknown"]) == {"bird": (0,)}
    assert things.beside(["bird", "dog"]) == {}


def test_listed_senses_are_those_of_wordnet_by_number_and_zero_demands_nothing(
    things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LISTED", {"dog": [(0, "food"), (1, "animal")]})
    demands = things.demands(["dog", "bird"])
    nothing, animal = demands.senses["dog"]
    assert demands.rows[nothing.row] == ()
    assert set(demands.rows[animal.row]) == {0, *things.codes[1]}
    assert not animal.is_beside
    assert "bird" not in demands.senses
    assert not demands.of("a dog").row.any()
