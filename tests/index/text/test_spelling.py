from __future__ import annotations

import pytest

from hasse.index.text.spelling import nearest

KNOWN = ["dog", "motorcycle", "broccoli", "horse", "house", "person", "child", "beach", "bench"]


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("motorcicle", "motorcycle"),
        ("brocolli", "broccoli"),
        ("hrose", "horse"),
        ("hous", "house"),
        ("peson", "person"),
        ("chlid", "child"),
        ("beahc", "beach"),
        ("bench", "bench"),
        ("dgo", None),  # too short to tell
        ("zeppelin", None),
        ("h0use", None),
        ("", None),
    ],
)
def test_nearest_word_has_one_edit_or_two_in_a_long_word(word: str, known: str | None) -> None:
    assert nearest(word, KNOWN) == known
