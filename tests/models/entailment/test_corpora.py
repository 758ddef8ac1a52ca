from __future__ import annotations

from pathlib import Path

import pytest

from models.entailment import EntailmentError, read
from models.entailment.pairs import Pair
from tests.models.entailment.corpora import SICK_HEADER, facts, sick, snli


def test_snli_is_read_without_the_pairs_that_have_no_label(tmp_path: Path) -> None:
    corpus = read(snli(tmp_path / "snli_1.0"))
    expected = tuple(Pair(a, b, label == "entailment") for a, b, label in facts())
    assert corpus.train == corpus.validation == corpus.test == expected
    assert corpus.dropped == 3
    assert corpus.name == "snli_1.0"


def test_a_line_of_sick_gives_both_its_directions(tmp_path: Path) -> None:
    corpus = read(sick(tmp_path / "SICK.txt", ("TRAIN", "TRIAL", "TEST")))
    a, b, _ = facts()[0]
    assert corpus.test[:2] == (Pair(a, b, entailed=True), Pair(b, a, entailed=False))
    assert len(corpus.train) == len(corpus.validation) == len(corpus.test) == 2 * len(facts())
    assert corpus.note == ""


def test_sick_without_its_test_part_is_measured_on_trial(tmp_path: Path) -> None:
    corpus = read(sick(tmp_path / "SICK.txt"))
    assert len(corpus.test) == 2 * len(facts())
    assert len(corpus.train) + len(corpus.validation) == 2 * len(facts())
    assert 0 < len(corpus.validation) < len(corpus.train)
    assert "measured on TRIAL" in corpus.note
    assert corpus == read(sick(tmp_path / "SICK.txt")), "the same file is always split alike"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "no JSON object with gold_label"),
        ('{"gold_label": "neutral", "sentence1": "a"}', "no JSON object with gold_label"),
        ('["neutral", "a", "b"]', "no JSON object with gold_label"),
        ('{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}', 'the label is "maybe"'),
        ('{"gold_label": [], "sentence1": "a", "sentence2": "b"}', r"the label is \[\]"),
    ],
)
def test_a_line_that_is_not_snlis_is_named(tmp_path: Path, line: str, reason: str) -> None:
    file = snli(tmp_path) / "snli_1.0_dev.jsonl"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(EntailmentError, match=rf"dev\.jsonl, line {len(facts()) + 2}.*{reason}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1\ta\tb", "3 fields instead of 7"),
        ("1\ta\tb\tX\tA_likes_B\tB_neutral_A\tTRAIN", "A_likes_B"),
        ("1\ta\tb\tX\tA_neutral_B\tB_neutral_A\tELSE", "ELSE"),
    ],
)
def test_a_line_that_is_not_sicks_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "SICK.txt"
    path.write_text(f"{SICK_HEADER}\n{line}\n")
    with pytest.raises(EntailmentError, match=rf"line 2.*{reason}"):
        read(path)


def test_what_is_neither_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(EntailmentError, match=r"SNLI's folder or the file SICK\.txt"):
        read(tmp_path / "nowhere")
    with pytest.raises(EntailmentError, match=r"no file named \*_train\.jsonl"):
        read(tmp_path)
    path = tmp_path / "SICK.txt"
    for content, reason in (
        (b"", "is empty"),
        (b"\xff\xff", "not UTF-8"),
        (b"one\ttwo\n", "no column sentence_A"),
        (f"{SICK_HEADER}\n".encode(), "too few lines of TRAIN"),
    ):
        path.write_bytes(content)
        with pytest.raises(EntailmentError, match=reason):
            read(path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = snli(tmp_path / "snli")
    plain = read(folder)
    for path in folder.iterdir():
        path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read(folder) == plain


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    folder = snli(tmp_path / "snli")
    (folder / "snli_2.0_dev.jsonl").touch()
    with pytest.raises(EntailmentError, match=r"2 files named \*_dev\.jsonl"):
        read(folder)


def test_a_corpus_of_the_folder_one_is_in_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(snli(tmp_path / "snli_1.0"))
    assert read(Path()).name == "snli_1.0"


def test_a_sentence_may_hold_a_line_separator(tmp_path: Path) -> None:
    folder = snli(tmp_path / "snli")
    for path in folder.iterdir():
        said = '{"gold_label": "neutral", "sentence1": "a\u2028dog\x85 runs", "sentence2": "b"}\r\n'
        path.write_bytes(said.encode())
    assert read(folder).test == (Pair("a\u2028dog\x85 runs", "b", False),)
