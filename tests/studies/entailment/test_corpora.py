from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasse.studies.entailment.corpus import SentencePair, read
from hasse.studies.sentence_pairs import SentencePairsError
from tests.studies.entailment.corpora import SICK_HEADER, facts, sick, snli


def test_snli_is_read_without_the_pairs_that_have_no_label(tmp_path: Path) -> None:
    corpus = read(snli(tmp_path / "snli_1.0"))
    expected = tuple(SentencePair(a, b, label == "entailment") for a, b, label in facts())
    assert corpus.train == corpus.validation == corpus.test == expected
    assert corpus.dropped == 3
    assert corpus.name == "snli_1.0"


def test_a_line_of_sick_gives_both_its_directions(tmp_path: Path) -> None:
    corpus = read(sick(tmp_path / "SICK.txt", ("TRAIN", "TRIAL", "TEST")))
    a, b, _ = facts()[0]
    assert corpus.test[:2] == (
        SentencePair(a, b, entailed=True),
        SentencePair(b, a, entailed=False),
    )
    assert len(corpus.train) == len(corpus.validation) == len(corpus.test) == 2 * len(facts())
    assert corpus.note == ""


def test_each_part_is_read_from_its_own_place(tmp_path: Path) -> None:
    table = tmp_path / "SICK.txt"
    labels = "CONTRADICTION\tA_contradicts_B\tB_entails_A"
    parts = ("TEST", "TRAIN", "TRIAL")
    lines = [f"1\t{part} runs \tIt runs\t{labels}\t{part} " for part in parts]
    table.write_text("\n".join([SICK_HEADER, *lines]) + "\n")
    for split, unsure in (("train", 1), ("dev", 2), ("test", 4)):
        said = {"sentence1": f"{split} runs", "sentence2": "It runs"}
        rows = [json.dumps(said | {"gold_label": label}) for label in ("neutral", *"-" * unsure)]
        (tmp_path / f"snli_1.0_{split}.jsonl").write_text("\n".join(rows))
    corpus, other = read(table), read(tmp_path)
    for name, pairs in (("TRAIN", corpus.train), ("TRIAL", corpus.validation)):
        assert pairs[0] == SentencePair(f"{name} runs", "It runs", entailed=False)
        assert pairs[1] == SentencePair("It runs", f"{name} runs", entailed=True)
    assert corpus.test[0].premise == "TEST runs"
    for name, pairs in (("train", other.train), ("dev", other.validation), ("test", other.test)):
        assert pairs == (SentencePair(f"{name} runs", "It runs", entailed=False),)
    assert other.dropped == 7


def test_sick_without_its_test_part_is_measured_on_trial(tmp_path: Path) -> None:
    path = tmp_path / "SICK.txt"
    rows = [f"{at}\tTRAIN {at}\tB\tX\tA_neutral_B\tB_neutral_A\tTRAIN" for at in range(1000)]
    rows += ["0\tTRIAL\tB\tX\tA_neutral_B\tB_neutral_A\tTRIAL"]
    path.write_text("\n".join([SICK_HEADER, *rows]))
    corpus = read(path)
    assert [pair.premise for pair in corpus.test] == ["TRIAL", "B"]
    learned, held = (
        {pair.premise for pair in part[::2]} for part in (corpus.train, corpus.validation)
    )
    assert learned | held == {f"TRAIN {at}" for at in range(1000)}
    assert not learned & held
    assert 70 < len(held) < 130
    assert "measured on TRIAL" in corpus.note
    assert corpus == read(path), "the same file is always split alike"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "no JSON object with gold_label"),
        ('{"gold_label": "neutral", "sentence1": "a"}', "no JSON object with gold_label"),
        ('["neutral", "a", "b"]', "no JSON object with gold_label"),
        ('{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}', 'the label is "maybe"'),
        ('{"gold_label": [], "sentence1": "a", "sentence2": "b"}', r"the label is \[\]"),
        (
            json.dumps({"gold_label": "x" * 99, "sentence1": "a", "sentence2": "b"}),
            r'the label is "x{39};',
        ),
        ("[" * 100_000, "no JSON object with gold_label"),
        ('{"gold_label": "neutral", "sentence1": 1, "sentence2": "b"}', "are not both text"),
        ('{"gold_label": "neutral", "sentence1": "a", "sentence2": null}', "are not both text"),
    ],
)
def test_a_line_that_is_not_snlis_is_named(tmp_path: Path, line: str, reason: str) -> None:
    file = snli(tmp_path) / "snli_1.0_dev.jsonl"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(SentencePairsError, match=rf"dev\.jsonl, line {len(facts()) + 2}.*{reason}"):
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
    with pytest.raises(SentencePairsError, match=rf"line 2.*{reason}"):
        read(path)


def test_what_is_neither_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(SentencePairsError, match=r"SNLI's folder or the file SICK\.txt"):
        read(tmp_path / "nowhere")
    with pytest.raises(SentencePairsError, match=r"no file named \*_train\.jsonl"):
        read(tmp_path)
    path = tmp_path / "SICK.txt"
    for content, reason in (
        (b"", "is empty"),
        (b"\xff\xff", "not UTF-8"),
        (b"one\ttwo\n", "no column sentence_A"),
        (f"{SICK_HEADER}\n".encode(), "too few lines of TRAIN"),
    ):
        path.write_bytes(content)
        with pytest.raises(SentencePairsError, match=reason):
            read(path)
    for split in ("train", "dev", "test"):
        (tmp_path / f"snli_1.0_{split}.jsonl").mkdir()
    with pytest.raises(SentencePairsError, match=r"_train\.jsonl cannot be read: it is not a file"):
        read(tmp_path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = snli(tmp_path / "snli")
    plain = read(folder)
    for path in folder.iterdir():
        path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read(folder) == plain


def test_a_file_in_which_nobody_agreed_is_named(tmp_path: Path) -> None:
    file = snli(tmp_path) / "snli_1.0_test.jsonl"
    file.write_text('{"gold_label": "-", "sentence1": "a", "sentence2": "b"}')
    with pytest.raises(SentencePairsError, match=r"_test\.jsonl has no pair with a label"):
        read(tmp_path)


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    folder = snli(tmp_path / "snli")
    (folder / "snli_2.0_dev.jsonl").touch()
    with pytest.raises(SentencePairsError, match=r"2 files named \*_dev\.jsonl"):
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
    assert read(folder).test == (SentencePair("a\u2028dog\x85 runs", "b", False),)
