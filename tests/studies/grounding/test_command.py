"""`hasse study grounding`: word vectors from a file, with and without pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.models.datasets import load
from hasse.models.vocabulary import words
from tests.service.cli.shapes import done
from tests.service.cli.shell import hasse

pytestmark = pytest.mark.slow

FEW = ("--set", "epochs=1", "--set", "states=8", "--device", "cpu")


@pytest.fixture
def vectors(home: Path, tmp_path: Path) -> Path:
    known = {word for caption in load(home / "data").captions for word in words(caption.text)}
    lines = [f"{word} {len(word)} 0.5 -1" for word in sorted(known | {"cats", "dogs", "wolves"})]
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join([*lines, ", 1 2 3"]))
    return path


def test_model_of_captions_alone_embeds_texts_and_refuses_pictures(
    home: Path, vectors: Path, tmp_path: Path
) -> None:
    out, lists = tmp_path / "cap2cap", tmp_path / "tasks"
    asked = (
        "study grounding",
        home / "data",
        "--recipe",
        "cap2cap",
        "--word-vectors",
        vectors,
        *FEW,
    )
    told = done(hasse(*asked, "--out", out)).err
    assert "perplexity" in told
    assert "hasse lab embed" in told

    (tmp_path / "texts.txt").write_text("wolves\n,\n")
    embed = ("lab embed", tmp_path / "texts.txt", "--model", out, "--device", "cpu")
    assert "1 line of 2 without a word" in hasse(*embed, "--out", tmp_path / "texts.npy").err
    points = np.load(tmp_path / "texts.npy")
    states_of = ("study states", tmp_path / "texts.txt", "--device", "cpu")
    done(hasse(*states_of, "--model", out, "--out", tmp_path / "states.npy"))
    refused = hasse(*states_of, "--model", "scenes", "--out", tmp_path / "none.npy")
    assert "use 'hasse lab embed'" in refused.error
    states = np.load(tmp_path / "states.npy")
    assert points.shape == states.shape == (2, 8)
    length = np.linalg.norm(states, axis=1, keepdims=True)
    np.testing.assert_allclose(points, states / length, atol=1e-6)
    lists.mkdir()
    (lists / "EN-MEN-TR-3k.txt").write_text("cats\tdogs\t9\ncats\twolves\t5\nwolves\tdogs\t1\n")
    assert "MEN" in done(hasse("study transfer", lists, "--model", out, "--device", "cpu")).out

    index = hasse("lab index build", home / "data", "--model", out, "--library", tmp_path / "index")
    assert "network of a study" in index.error
    assert "'hasse study'" in index.error


def test_vectors_that_cannot_be_used_are_refused_in_one_sentence(
    home: Path, vectors: Path, tmp_path: Path
) -> None:
    asked = ("study grounding", home / "data", "--out", tmp_path / "out", *FEW)
    cap2cap, given = ("--recipe", "cap2cap"), ("--word-vectors", vectors)
    assert "--word-vectors" in hasse(*asked, *cap2cap).error
    assert "--features" in hasse(*asked, "--recipe", "cap2img", *given).error
    size = hasse(*asked, *cap2cap, *given, "--set", "word_dimension=50").error
    assert "have 3 numbers" in size
    assert "leave word_dimension out" in size
    features = hasse(*asked, *cap2cap, *given, "--features", tmp_path).error
    assert "leave --features" in features
    for lines, said in (
        ("a 1 2\nb 1\n", "line 2 has 1 numbers instead of 2"),
        ("a 1 2\nb 1 x\n", "each line is a word and its numbers"),
        ("a 1 2\nb nan 1\n", "not finite"),
        (", 1 2\n", "no vector of any wanted word"),
    ):
        vectors.write_text(lines)
        assert said in hasse(*asked, *cap2cap, *given).error
    assert not (tmp_path / "out" / "config.json").exists()
