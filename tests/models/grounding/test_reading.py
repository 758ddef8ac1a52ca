"""The parts of a text, by a small table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasse.models.grounding.demands import Demands, TaughtWord, Told
from hasse.models.grounding.reading import parts_of

ANIMAL, DOG, RUN, PERSON = range(4)
TABLE = Demands(
    4,
    ((ANIMAL,), (ANIMAL, DOG), (RUN,), (PERSON,)),
    {"animal": 0, "dog": 1},
    {"giraffe": 0},
    frozenset({"park", "skier", "athlete", "group", "beach"}),
    frozenset({"a", "an", "on", "of", "the", "no", "with"}),
    frozenset(
        {"animal", "dog", "giraffe", "park", "skier", "athlete", "group", "beach", "brown", "runs"}
    ),
    taught_words={
        "runs": TaughtWord(RUN, 2, by_classes=False, is_noun=False),
        "person": TaughtWord(PERSON, 3, by_classes=False, is_noun=True),
    },
    learned=2,
    kinds={"athlete": (PERSON,)},
    general={"skier": "athlete"},
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("the", []),
        ("a dog", ["dog"]),
        (
            "a brown dog runs on the beach",
            ["brown dog runs on the beach", "brown dog runs", "brown dog", "dog"],
        ),
        ("a dog park", ["dog park", "park"]),
        ("no dog", ["no dog"]),
        ("a group of dogs", ["group of dogs", "dogs"]),
    ],
)
def test_parts_of_a_text_are_what_follows_from_it(text: str, parts: list[str]) -> None:
    assert [part.text for part in parts_of(TABLE, text)] == parts


def test_parts_of_a_part_are_parts_of_the_text() -> None:
    text = "a group of brown dogs runs with a skier on the beach of a park"
    parts = {part.text for part in parts_of(TABLE, text)}
    for part in parts:
        assert {one.text for one in parts_of(TABLE, part)} <= parts


@pytest.mark.parametrize(
    ("text", "told", "above"),
    [
        ("a dog", Told((), (ANIMAL, DOG)), ()),
        ("runs", Told((RUN,), ()), ()),
        ("an athlete", Told((PERSON,), ()), ()),
        ("a skier", None, (Told((PERSON,), ()),)),
        ("a giraffe", None, (Told((), (ANIMAL,)),)),
        ("a park", None, ()),
    ],
)
def test_evidence_of_a_word_is_its_own_or_limited_by_that_of_what_it_is(
    text: str, told: Told | None, above: tuple[Told, ...]
) -> None:
    (part,) = parts_of(TABLE, text)
    assert (part.units[0].told, part.units[0].above) == (told, above)


def test_word_that_is_not_there_has_no_evidence() -> None:
    for text in ("no dog", "a toy dog", "a dog park"):
        units = parts_of(TABLE, text)[0].units
        assert not any(unit.told for unit in units)


def test_table_without_order_reads_words_alike() -> None:
    bare = replace(TABLE, kinds={}, general={})
    assert [part.text for part in parts_of(bare, "a skier on a beach")] == [
        part.text for part in parts_of(TABLE, "a skier on a beach")
    ]
