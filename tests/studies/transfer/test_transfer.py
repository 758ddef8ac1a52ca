"""Tasks on top of embeddings: read as they are distributed, and told apart where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hasse.studies.grounding.word_vectors import WordVectors, WordVectorsError
from hasse.studies.transfer.evaluation import evaluate, pair_features
from hasse.studies.transfer.logistic import Features
from hasse.studies.transfer.tasks import Examples, TransferError, read_tasks
from hasse.studies.transfer.words import read_word_pairs, similarity
from tests.service.cli.shell import hasse
from tests.tiny import tiny_checkpoint

SICK = "sentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"


def write_tasks(folder: Path) -> None:
    """Write MR, MRPC and SICK, of which the first words tell the class."""
    draw = np.random.default_rng(0)

    def sentence(word: str) -> str:
        return " ".join([word, *draw.choice(["the", "film", "was", "it", "a"], 4)])

    (folder / "MR").mkdir(parents=True)
    for name, word in (("neg", "bad"), ("pos", "good")):
        lines = "\n".join(sentence(word) for _ in range(60))
        (folder / "MR" / f"rt-polarity.{name}").write_bytes(f"{lines}\n\xe9".encode("latin-1"))
    head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    for part, count in (("train", 90), ("test", 40)):
        rows = []
        for at in range(count):
            same = at % 2
            other = "good" if same else "bad"
            rows.append(f"{same}\t1\t2\t{sentence('good')}\t{sentence(other)}")
        (folder / f"msr_paraphrase_{part}.txt").write_text(head + "\n".join(rows))
    rows = []
    for at in range(120):
        same = at % 2
        fields = (sentence("good"), sentence("good" if same else "bad"))
        label, score = ("ENTAILMENT", 4.5) if same else ("CONTRADICTION", 1.5)
        part = "TRAIN" if at < 80 else "TRIAL"
        rows.append("\t".join([*fields, label, str(score), part]))
    (folder / "SICK.txt").write_text(SICK + "\n".join(rows))


def by_first_word(texts: Sequence[str]) -> Features:
    """Embed texts by their first word, in noise."""
    draw = np.random.default_rng(len(texts))
    found = draw.normal(scale=0.1, size=(len(texts), 6)).astype(np.float32)
    found[:, 0] += [1.0 if text.startswith("good") else -1.0 for text in texts]
    return found


def test_tasks_that_embeddings_tell_apart_are_solved(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tasks = {task.name: task for task in read_tasks(tmp_path)}
    assert set(tasks) == {"MR", "MRPC", "SICK-E", "SICK-R"}
    found = {name: evaluate(task, by_first_word) for name, task in tasks.items()}
    assert all(result.value > 95 for result in found.values())
    assert (found["MR"].examples, found["MRPC"].examples) == (122, 40)
    assert found["MRPC"].f1 is not None
    assert found["SICK-R"].metric == "pearson"
    assert "TRIAL" in found["SICK-E"].note


def test_tasks_that_embeddings_say_nothing_of_are_left_to_chance(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tasks = {task.name: task for task in read_tasks(tmp_path)}
    noise = np.random.default_rng(1)

    def encode(texts: Sequence[str]) -> Features:
        return noise.normal(size=(len(texts), 6)).astype(np.float32)

    result = evaluate(tasks["MR"], encode)
    assert 30 < result.value < 70
    assert result.low < result.value < result.high
    assert "50 of 122" in evaluate(tasks["MR"], by_first_word, most=50).note


def test_features_of_a_pair_are_both_points_their_products_and_distances() -> None:
    points = {"a": np.array([[1.0, 0.0]], np.float32), "b": np.array([[0.0, 2.0]], np.float32)}
    pair = Examples(("a",), ("b",), np.zeros((1, 2), np.float32))
    found = pair_features(pair, lambda texts: points[texts[0]])[0].tolist()
    assert found == [1, 0, 0, 2, 0, 0, 1, 2]


def test_word_similarity_is_spearmans_over_words_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "EN-MEN-TR-3k.txt").write_text(
        "up\tout\t9\nup\tside\t5\nout\tside\t6\nup\tdown\t1\nup\tzz\t9\n"
    )
    lines = ["up 1 0", "out 0.9 0.1", "side 0 1", "down -1 0"]
    (tmp_path / "vectors.txt").write_text("4 2\n" + "\n".join(lines) + "\n")
    vectors = WordVectors.read(tmp_path / "vectors.txt")
    (pairs,) = read_word_pairs(tmp_path)
    found = similarity(pairs, vectors.encode, vectors.knows)
    assert found.value == pytest.approx(100, abs=0.1)
    assert (found.known, found.pairs) == (4, 5)
    few = similarity(pairs, vectors.encode, lambda word: word != "side")
    assert (few.value, few.low, few.high, few.known) == (None, None, None, 3)
    assert vectors.encode(["up, side!", "zz"]).tolist() == [[0.5, 0.5], [0, 0]]


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "custrev.neg").write_text("bad")
    with pytest.raises(TransferError, match=r"custrev\.pos"):
        read_tasks(tmp_path)
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 1\n")
    with pytest.raises(WordVectorsError, match="line 2"):
        WordVectors.read(tmp_path / "vectors.txt")


def test_transfer_command_measures_models_side_by_side(tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks")
    model = tiny_checkpoint(tmp_path / "tiny")
    (tmp_path / "v.txt").write_text("good 1 0\nbad 0 1\n")
    both = ("--model", model, "--vectors", tmp_path / "v.txt")
    shown = hasse("study transfer", tmp_path / "tasks", *both, "--task", "MR")
    assert "MR" in shown.out
    assert "SICK" not in shown.out
    assert "tiny and v.txt" in shown.err
    assert "has no files" in hasse("study transfer", tmp_path / "tiny", "--model", model).error
    assert "--model" in hasse("study transfer", tmp_path / "tasks").error
