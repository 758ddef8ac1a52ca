from __future__ import annotations

import pytest

from hasse.index.text.kinds import words_of


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("people", {"people", "person", "women", "man", "children"}),
        ("a person", {"person", "people", "girl"}),
        ("dogs", {"dogs", "dog", "puppy"}),
        ("the cars", {"cars", "car", "taxi", "taxis"}),
        ("vehicles", {"vehicle", "bus", "buses", "boats"}),
        ("a red ball", {"red ball", "red balls"}),
        ("Felix", {"felix"}),
    ],
)
def test_words_of_what_is_left_out_are_its_forms_and_kinds(text: str, said: set[str]) -> None:
    assert said <= set(words_of(text))


@pytest.mark.parametrize(("text", "other"), [("dogs", "cat"), ("cars", "bus"), ("a", "man")])
def test_words_of_what_is_left_out_are_not_those_of_other_things(text: str, other: str) -> None:
    assert other not in words_of(text)
