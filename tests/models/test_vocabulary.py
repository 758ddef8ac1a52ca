from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.models.vocabulary import END, UNKNOWN, Vocabulary, words


def test_a_letter_and_its_accent_are_one_however_they_are_written() -> None:
    assert words("Le cafe\u0301 d'été") == words("le caf\u00e9 d'e\u0301te\u0301")
    assert words("cafe\u0301s") == ["cafés"]


def test_words_are_lower_case_without_punctuation() -> None:
    assert words("A man's DOG, running -- fast !") == ["a", "man's", "dog", "running", "fast"]
    assert words("Rock'n'roll") == ["rock'n'roll"]
    assert words("Straße x²") == ["straße", "x²"], "and nothing else is changed"


@pytest.mark.parametrize("apostrophe", "’‘ʼ＇")
def test_words_with_any_apostrophe_are_those_with_a_plain_one(apostrophe: str) -> None:
    assert words(f"a man{apostrophe}s dog") == words("a man's dog")


def test_words_are_the_same_with_variation_selectors_and_invisible_characters() -> None:
    assert words("a dog\ufe0f, hot\u00addogs\U000e0100\ufeff") == ["a", "dog", "hotdogs"]


def test_only_letters_and_digits_of_any_script_are_words() -> None:
    assert words("Ein Hündchen_läuft, 犬 #7") == ["ein", "hündchen", "läuft", "犬", "7"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("हिन्दी में एक कुत्ता", ["हिन्दी", "में", "एक", "कुत्ता"]),
        ("ශ්\u200dරී ලංකා", ["ශ්\u200dරී", "ලංකා"]),
        ("سگ می\u200cدود\u200c.", ["سگ", "می\u200cدود"]),
        ("หมา วิ่ง", ["หมา", "วิ่ง"]),
        ("x\u0303y'z \u0303", ["x\u0303y'z"]),
        ("一只狗。海滩", ["一", "只", "狗", "海", "滩"]),
        (
            "2匹の犬がTシャツ・ボールを",
            ["2", "匹", "の", "犬", "が", "t", "シャツ", "ボール", "を"],
        ),
        ("か\u3099", ["が"]),
        ("개가 뛴다", ["개가", "뛴다"]),
    ],
)
def test_words_are_those_of_the_script_that_they_are_written_in(
    text: str, found: list[str]
) -> None:
    assert words(text) == found


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_words_are_the_same_beside_letters_of_another_script(text: str) -> None:
    assert words(f"{text} é") == [*words(text), "é"]


def test_frequent_words_come_first_and_rare_ones_are_left_out() -> None:
    vocabulary = Vocabulary.build(["a dog", "a cat", "a dog runs"], min_count=2)
    assert vocabulary.words == ("a", "dog")
    assert Vocabulary.build(["cat dog ant", "dog"]).words == ("dog", "ant", "cat")


def test_a_caption_ends_with_the_end_mark_and_unknown_words_are_one_word() -> None:
    vocabulary = Vocabulary(["a", "dog"])
    assert vocabulary.encode("a zeppelin", max_words=9) == [3, UNKNOWN, END]
    assert vocabulary.encode("", max_words=9) == [END]


def test_a_long_caption_is_cut_before_the_end_mark() -> None:
    assert Vocabulary(["a"]).encode("a " * 500, max_words=4) == [3, 3, 3, 3, END]


def test_unknown_words_are_named_once_in_order() -> None:
    assert Vocabulary(["a"]).unknown_words("A zeppelin, a blimp, a zeppelin") == [
        "zeppelin",
        "blimp",
    ]


@pytest.mark.parametrize("text", ["a dog's tail", "a dog’s tail", "a dog 's tail", "A DOG'S tail"])
def test_possessive_that_is_not_known_is_read_as_its_parts(text: str) -> None:
    vocabulary = Vocabulary(["a", "dog", "tail", "s"])
    assert vocabulary.encode(text, max_words=9) == [3, 4, 6, 5, END]
    assert vocabulary.unknown_words(text) == []
    assert vocabulary.knows("dog's")


def test_word_with_an_apostrophe_that_is_known_stays_whole() -> None:
    vocabulary = Vocabulary(["dog", "s", "dog's"])
    assert vocabulary.encode("dog's", max_words=9) == [5, END]


def test_possessive_without_a_known_s_is_the_noun() -> None:
    vocabulary = Vocabulary(["dog", "a"])
    assert vocabulary.encode("a dog's", max_words=9) == [4, 3, END]
    assert vocabulary.unknown_words("a dog's") == []


def test_possessive_of_an_unknown_noun_is_one_unknown_word() -> None:
    vocabulary = Vocabulary(["a", "s"])
    assert vocabulary.encode("a blimp's", max_words=9) == [3, UNKNOWN, END]
    assert vocabulary.unknown_words("a blimp's") == ["blimp's"]


@pytest.mark.parametrize(
    "text", ["café", "cafe\u0301", "CAFÉ", "ｃａｆｅ", "caﬀe", "ĆAFE", "cafe\ufe0f", "CAF\u0130E"]
)
def test_word_unknown_as_written_is_read_without_accents_and_ligatures(text: str) -> None:
    vocabulary = Vocabulary(["cafe", "caffe", "cafie"])
    assert vocabulary.unknown_words(text) == []
    assert vocabulary.knows(text)
    number = {"caﬀe": 4, "CAF\u0130E": 5}.get(text, 3)
    assert vocabulary.encode(text, max_words=9) == [number, END]


def test_word_known_with_accents_is_read_when_written_without() -> None:
    vocabulary = Vocabulary(["schön", "schon", "brûlée", "smørrebrød"])
    assert vocabulary.encode("schön schon SCHÓN", max_words=9) == [3, 4, 4, END]
    assert vocabulary.encode("brulee smorrebrod", max_words=9) == [5, 6, END]


def test_marks_that_are_vowels_stay() -> None:
    assert Vocabulary(["हनद"]).unknown_words("हिन्दी") == ["हिन्दी"]


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("giraffe", "giraffes giraffe's giraffes'"),
        ("box", "boxes"),
        ("knife", "knives"),
        ("puppy", "puppies"),
        ("café", "cafes cafés"),
        ("jump", "jumps jumped jumping"),
        ("skate", "skates skated skating"),
        ("jog", "jogs jogged jogging"),
        ("carry", "carries carried carrying"),
        ("lie", "lies lied lying"),
        ("big", "biggest"),
        ("happy", "happiest happier"),
        ("cute", "cuter cutest"),
        ("fat", "fatter"),
        ("break", "broke"),
        ("breaking", "broke"),
        ("quiz", "quizzes"),
        ("kittens", "kitten"),
        ("climbing", "climb climbs climbed"),
        ("surfed", "surf surfs surfing"),
        ("skating", "skate skates"),
    ],
)
def test_unknown_word_is_read_as_the_known_word_of_which_it_is_a_form(
    known: str, asked: str
) -> None:
    vocabulary = Vocabulary(["a", known])
    assert vocabulary.unknown_words(asked) == []
    assert set(vocabulary.encode(asked, max_words=9)) == {4, END}


@pytest.mark.parametrize(
    ("known", "asked"), [("glas", "glass"), ("w", "wing"), ("re", "red"), ("k", "king")]
)
def test_word_that_only_ends_like_a_form_stays_unknown(known: str, asked: str) -> None:
    assert Vocabulary([known]).unknown_words(asked) == [asked]


def test_form_that_is_known_itself_is_read_as_such() -> None:
    assert Vocabulary(["dog", "dogs"]).encode("dogs dog", max_words=9) == [4, 3, END]


@given(st.text(max_size=50))
def test_a_word_is_unknown_exactly_where_its_number_is_that_of_unknown_words(text: str) -> None:
    vocabulary = Vocabulary(["a", "dog", "jumping", "café", "s"])
    numbers = vocabulary.encode(text, max_words=100)[:-1]
    assert (UNKNOWN in numbers) == bool(vocabulary.unknown_words(text))
    assert any(number != UNKNOWN for number in numbers) == vocabulary.knows(text)


def test_a_vocabulary_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one word"):
        Vocabulary.build(["...", ""])


@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_a_saved_vocabulary_numbers_words_alike(known: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.json"
        path.write_bytes(Vocabulary(known).to_bytes())
        assert Vocabulary.load(path).words == tuple(known)


@pytest.mark.parametrize("content", ["{}", "[1]", '["a", "a"]', "[", "[]"])
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(ValueError, match=r"."):
        Vocabulary.load(tmp_path / "v.json")


def test_knows_is_true_when_one_word_is_known() -> None:
    vocabulary = Vocabulary(["dog"])
    assert vocabulary.knows("Zorp DOG!")
    assert not any(map(vocabulary.knows, ("zorp", "hotdog", "!?", "")))
