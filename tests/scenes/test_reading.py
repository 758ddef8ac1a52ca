"""Texts of scenes become what they state."""

from __future__ import annotations

import pytest

from hasse.scenes import entails, holds, scene_and_captions
from hasse.scenes.reading import names_main_thing, read
from hasse.scenes.scene import Entity, Relation, Scene, Situation


def test_read_of_a_written_statement_states_the_same() -> None:
    for at in range(200):
        scene, statements = scene_and_captions(3, "test", at)
        for statement in statements:
            found = read(statement.text)
            assert found is not None, statement.text
            assert entails(found, statement), statement.text
            assert entails(statement, found), statement.text
            assert holds(found, scene)


@pytest.mark.parametrize(
    "text", ["", "a dog a cat", "a dog and", "a dog holding", "a sunny dog on a beach", "dog"]
)
def test_read_of_what_no_statement_says_is_none(text: str) -> None:
    assert read(text) is None


def test_main_thing_is_named_by_its_own_kind_and_what_it_does() -> None:
    girl, dog = Entity("girl", action="standing"), Entity("poodle")
    scene = Scene(Situation((girl, dog), (Relation(0, "next to", 1),), place="park"))
    for text, named in (
        ("a girl standing in a park", True),
        ("a girl beside a dog", True),
        ("a girl", False),
        ("a child standing", False),
        ("a poodle", False),
    ):
        assert names_main_thing(read(text), scene) is named, text
