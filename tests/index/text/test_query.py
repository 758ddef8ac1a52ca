from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.index.text.query import TextQuery, fold


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
    assert read.caption == "the here"


@pytest.mark.parametrize(
    ("query", "phrases", "caption"),
    [
        ('"a dog -beach"', ("a dog beach",), ""),
        ('"no people" on the beach', ("no people",), "on the beach"),
        ("a cat «without a hat»", ("without a hat",), "a cat"),
        ('"-5 degrees" "nobody"', ("5 degrees", "nobody"), ""),
        ('" " a dog', (), "a dog"),
    ],
)
def test_quoted_text_is_text_whatever_it_contains(
    query: str, phrases: tuple[str, ...], caption: str
) -> None:
    read = TextQuery.read(query)
    assert (read.phrases, read.caption, read.excluded) == (phrases, caption, ())


@pytest.mark.parametrize(
    ("query", "caption", "excluded"),
    [
        ("a dog -beach", "a dog", ("beach",)),
        ('a dog -"red ball" runs', "a dog runs", ("red ball",)),
        ("a beach without people", "a beach", ("people",)),
        ("a man without a hat, smiling", "a man , smiling", ("a hat",)),
        ("semi-final 2020-10", "semi-final 2020-10", ()),
        ("-dog", "", ("dog",)),
        ('a dog without "red ball"', "a dog", ("red ball",)),
        ("no people", "", ("people",)),
        ("without a dog", "", ("a dog",)),
        ("nobody", "", ("people",)),
        ("a beach with nobody", "a beach", ("people",)),
        ("a street and no one", "a street", ("people",)),
        ("a street with no cars", "a street", ("cars",)),
        ("No cars on the street", "on the street", ("cars",)),
        ("a beach without people in summer", "a beach in summer", ("people",)),
        ("a table, no cups or plates, a lamp", "a table, , a lamp", ("cups", "plates")),
        ("a park without dogs and cats", "a park", ("dogs", "cats")),
        ("animals but not a dog", "animals", ("a dog",)),
        ("a field excluding horses", "a field", ("horses",)),
        ("no parking", "no parking", ()),
        ("a no smoking sign", "a no smoking sign", ()),
        ("no dogs sign", "no dogs sign", ()),
        ("no 7", "no 7", ()),
        ("do not enter", "do not enter", ()),
        ("Kimi no na wa", "Kimi no na wa", ()),
        ("a sign that says no", "a sign that says no", ()),
        ("casino nova", "casino nova", ()),
        ("Not Ryan", "Not Ryan", ()),
    ],
)
def test_words_for_what_is_absent_exclude(
    query: str, caption: str, excluded: tuple[str, ...]
) -> None:
    read = TextQuery.read(query, lambda text: not {"na", "Ryan"} & {*text.split()})
    assert (read.caption, read.excluded) == (caption, excluded)


@given(st.text(alphabet='ab "-“”*()%_:^+\\\0', max_size=40))
def test_query_of_operators_and_wildcards_has_folded_words_only(query: str) -> None:
    read = TextQuery.read(query)
    for text in (*words(read), *read.phrases):
        assert text.replace(" ", "").isalnum()


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
        ("مُحَمَّد", "محمد"),
        ("كِتَاب", "كتاب"),
        ("الرَّحْمٰن", "الرحمن"),
        ("عـــلي", "علي"),
        ("أحمد", "احمد"),
        ("תִּקּוּן", "תקון"),
        ("שָׁלוֹם", "שלום"),
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
