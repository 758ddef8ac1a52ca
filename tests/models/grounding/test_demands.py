"""What phrases of a text demand, and when they demand nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hasse.models.grounding.demands import BESIDE, FAINT, WITHIN, Demands, Sense, TaughtWord

ANIMAL, DOG, CAT, FOOD = range(4)
TABLE = Demands(
    4,
    ((ANIMAL,), (ANIMAL, DOG), (ANIMAL, CAT), (FOOD,)),
    {"animal": 0, "dog": 1, "cat": 2, "hot dog": 3, "food": 3},
    {"giraffe": 0},
    frozenset({"park", "man"}),
    frozenset({"a", "on", "the", "and", "no", "not", "without"}),
    frozenset({"animal", "dog", "cat", "food", "giraffe", "park", "man", "runs"}),
    {"turkey": (Sense(0, False, "wild"), Sense(3, False, "table"))},
    {"wild": ("wild",), "eat": ("wild", "table"), "plate": ("table",)},
)


def demanded(text: str) -> list[int]:
    return np.flatnonzero(TABLE.of(text).row).tolist()


def test_a_noun_demands_itself_and_all_above_it() -> None:
    assert demanded("a dog") == [ANIMAL, DOG]
    assert TABLE.of("a dog").row.max() == 1


@pytest.mark.parametrize("text", ["dogs", "Two... a DOG", "the dog and a cat"])
def test_forms_marks_and_conjunctions_change_nothing(text: str) -> None:
    assert {ANIMAL, DOG} <= set(demanded(text))


def test_several_nouns_demand_what_each_of_them_does() -> None:
    joined = np.maximum(TABLE.of("a dog").row, TABLE.of("a cat").row)
    np.testing.assert_array_equal(TABLE.of("a dog and a cat").row, joined)


def test_the_longest_phrase_is_read() -> None:
    assert demanded("a hot dog") == [FOOD]


@pytest.mark.parametrize("text", ["a dog park", "a toy dog", "no dog", "a man without a dog"])
def test_a_noun_that_is_not_there_demands_nothing(text: str) -> None:
    assert demanded(text) == []


def test_a_noun_before_a_noun_demands_nothing_and_the_second_one_does() -> None:
    assert demanded("cat food") == [FOOD]


@pytest.mark.parametrize("text", ["a turkey", "a wild turkey", "wild turkeys eat", "turkeys eat"])
def test_a_sense_is_the_likeliest_unless_other_words_tell_of_another(text: str) -> None:
    assert demanded(text) == [ANIMAL]


@pytest.mark.parametrize("text", ["a turkey on a plate", "eating turkeys from plates"])
def test_a_sense_is_that_of_most_words_around_it_in_all_their_forms(text: str) -> None:
    assert demanded(text) == [FOOD]


def test_negation_ends_with_its_noun() -> None:
    assert demanded("no dog and a cat") == [ANIMAL, CAT]


def test_only_texts_of_things_alone_name_things() -> None:
    assert TABLE.of("a dog and a cat").names_things
    assert not TABLE.of("a dog runs").names_things
    assert not TABLE.of("a giraffe").names_things
    assert not TABLE.of("").names_things


def test_a_thing_in_a_longer_text_or_beside_the_classes_is_demanded_weakly() -> None:
    assert TABLE.of("a dog runs").row[DOG] == pytest.approx(WITHIN)
    assert TABLE.of("a giraffe").row[ANIMAL] == pytest.approx(BESIDE * WITHIN)


def test_phrases_are_those_that_demand_something_once_and_in_order() -> None:
    found = TABLE.phrases("a hot dog, two dogs and a giraffe, no cat in the park; the dogs")
    assert found == [
        ("hot dog", (FOOD,), False),
        ("dogs", (ANIMAL, DOG), False),
        ("giraffe", (ANIMAL,), True),
    ]


def test_a_table_is_read_as_it_was_written() -> None:
    found = Demands.from_json(json.loads(TABLE.to_bytes()), TABLE.words)
    assert found == TABLE


def test_a_table_with_a_coordinate_that_is_not_there_is_refused() -> None:
    damaged = json.loads(TABLE.to_bytes()) | {"rows": [[0], [4], [1], [2]]}
    with pytest.raises(ValueError, match="not among the 4"):
        Demands.from_json(damaged, ())


def test_a_table_with_a_sense_whose_row_is_not_there_is_refused() -> None:
    damaged = json.loads(TABLE.to_bytes()) | {"senses": {"turkey": [[4, False, "wild"]]}}
    with pytest.raises(ValueError, match="a row that is not there"):
        Demands.from_json(damaged, ())


# Behind the four coordinates of classes: a rider, a person, to ride and red.
RIDER, PERSON, RIDE, RED = range(4, 8)
TAUGHT = replace(
    TABLE,
    size=8,
    rows=(*TABLE.rows, (RIDER, PERSON), (RIDE,), (RED,), (ANIMAL, DOG, PERSON)),
    classes={**TABLE.classes, "poodle": 7},
    taught_words={
        "rider": TaughtWord(RIDER, 4, by_classes=False, is_noun=True),
        "rides": TaughtWord(RIDE, 5, by_classes=False, is_noun=False),
        "red": TaughtWord(RED, 6, by_classes=False, is_noun=False),
    },
    learned=4,
)


def test_taught_word_alone_demands_itself_and_faintly_what_follows_from_it() -> None:
    demand = TAUGHT.of("the rider")
    assert demand.names_things
    assert demand.row[RIDER] == 1
    assert demand.row[PERSON] == np.float32(FAINT)


def test_class_demands_taught_words_above_it_faintly() -> None:
    row = TAUGHT.of("a poodle").row
    assert row[[ANIMAL, DOG]].tolist() == [1, 1]
    assert row[PERSON] == np.float32(FAINT)


def test_taught_words_of_a_longer_text_are_demanded_faintly_and_change_nothing_else() -> None:
    text = "a rider rides a red dog"
    demand = TAUGHT.of(text)
    assert not demand.names_things
    assert demand.row[:4].tolist() == TABLE.of(text).row.tolist()
    assert demand.row[[RIDER, RIDE, RED]] == pytest.approx(FAINT * WITHIN)


@pytest.mark.parametrize("text", ["no rider", "a dog without a rider", "a plastic rider on grass"])
def test_taught_word_that_is_not_there_is_not_demanded(text: str) -> None:
    assert TAUGHT.of(text).row[RIDER] == 0


def test_taught_words_survive_being_written() -> None:
    read = Demands.from_json(json.loads(TAUGHT.to_bytes()), TAUGHT.words)
    assert read == TAUGHT


def test_taught_word_without_classes_has_no_place_in_a_picture() -> None:
    assert TAUGHT.phrases("a rider on a dog") == TABLE.phrases("a dog")
