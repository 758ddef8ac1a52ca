from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.index.text.folding import fold


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Straße", "strasse"),
        ("ﬁnal CAFÉ", "final cafe"),
        ("cafe\u0301", "cafe"),
        ("№ 7", "no 7"),
        ("IMG_2033.JPG", "img 2033 jpg"),
        ("ＡＢＣ１２", "abc12"),
        ("A4", "a4"),
        ("Ærøskøbing", "aeroskobing"),
        ("東京タワー", "東 京 タ ワ ー"),
        ("İstanbul", "istanbul"),
        ("Ελλάδα", "ελλαδα"),
        ("हिन्दी", "हिन्दी"),
        ("100% *_\0'\"", "100"),
        ("\ud800", ""),
    ],
)
def test_fold_keeps_letters_and_numbers_without_case_accents_and_width(
    text: str, folded: str
) -> None:
    assert fold(text) == folded


@given(st.text())
def test_fold_of_folded_text_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(), st.text())
def test_fold_of_texts_with_a_space_between_is_that_of_each(one: str, other: str) -> None:
    assert fold(f"{one} {other}") == " ".join(filter(None, (fold(one), fold(other))))
