from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.index.text.query import TextQuery


def words(query: TextQuery) -> list[str]:
    return [term.folded for term in query.terms]


def test_query_without_marks_is_the_caption_itself() -> None:
    read = TextQuery.read("Our  cat Felix, on the sofa")
    assert read.caption == "Our  cat Felix, on the sofa"
    assert words(read) == ["cat", "felix", "sofa"]
    assert not read.phrases
    assert not read.excluded


def test_query_of_stop_words_alone_looks_for_them() -> None:
    assert words(TextQuery.read("The It")) == ["the", "it"]


@pytest.mark.parametrize("query", ['the "Wi-Fi password" here', "the “Wi-Fi password” here"])
def test_quotes_ask_for_text_as_it_stands(query: str) -> None:
    read = TextQuery.read(query)
    assert read.phrases == ("wi fi password",)
    assert read.caption == "the Wi-Fi password here"


@pytest.mark.parametrize(
    ("query", "caption", "excluded"),
    [
        ("a dog -beach", "a dog", ("beach",)),
        ('a dog -"red ball" runs', "a dog runs", ("red ball",)),
        ("a beach without people", "a beach", ("people",)),
        ("a man without a hat, smiling", "a man , smiling", ("a hat",)),
        ("semi-final 2020-10", "semi-final 2020-10", ()),
        ("-dog", "", ("dog",)),
    ],
)
def test_minus_and_without_exclude(query: str, caption: str, excluded: tuple[str, ...]) -> None:
    read = TextQuery.read(query)
    assert (read.caption, read.excluded) == (caption, excluded)


@given(st.text(alphabet='ab "-“”*()%_:^+\\\0', max_size=40))
def test_query_of_operators_and_wildcards_has_folded_words_only(query: str) -> None:
    read = TextQuery.read(query)
    for text in (*words(read), *read.phrases):
        assert text.replace(" ", "").isalnum()
