"""`hasse lab embed`: texts and pictures to arrays and JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.checkpoints import learned_model
from tests.service.cli.shell import hasse
from tests.service.collection import picture
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("embed") / "tiny")


def test_embed_texts_writes_a_row_for_each_line(model: Path, tmp_path: Path) -> None:
    lines = ["a dog runs", "", "собака", "a cat in the park"]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = hasse(
        "lab embed", tmp_path / "texts.txt", "--model", model, "--out", tmp_path / "deep" / "t.npy"
    )
    found = np.load(tmp_path / "deep" / "t.npy", allow_pickle=False)
    assert np.array_equal(found, learned_model.load(model).model.encode_captions(lines))
    assert "2 lines of 4 without a word" in done.err
    assert "say nothing: 2, 3" in done.err
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["t.npy"]


def test_embed_texts_prints_json_lines(model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a dog\na zebra", encoding="utf-8")
    rows = [
        json.loads(line)
        for line in hasse("lab embed", tmp_path / "texts.txt", "--model", model).out.splitlines()
    ]
    assert [row["text"] for row in rows] == ["a dog", "a zebra"]
    assert [row["unknown_words"] for row in rows] == [[], ["zebra"]]
    expected = learned_model.load(model).model.encode_captions(["a dog", "a zebra"])
    assert np.array_equal(np.array([row["embedding"] for row in rows], np.float32), expected)


def test_embed_pictures_keeps_a_row_for_one_that_cannot_be_read(
    model: Path, tmp_path: Path
) -> None:
    for at in range(3):
        picture(at).save(tmp_path / f"{at}.png")
    (tmp_path / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    done = hasse("lab embed", tmp_path, "--model", model, "--out", tmp_path / "p.npy")
    found = np.load(tmp_path / "p.npy", allow_pickle=False)
    loaded = learned_model.load(model).model
    assert found[[0, 2]] == pytest.approx(loaded.encode_images([picture(0), picture(2)]), abs=1e-6)
    assert np.isnan(found[1]).all()
    assert "1.png" in done.err
    (tmp_path / "page.jpg").write_text("<html>")
    assert (
        "page.jpg: not a picture" in hasse("lab embed", tmp_path / "page.jpg", "--model", model).err
    )
    out = hasse("lab embed", tmp_path / "1.png", tmp_path / "2.png", "--model", model).out
    assert [json.loads(line)["embedding"] is None for line in out.splitlines()] == [True, False]


def test_embed_texts_and_pictures_together_are_refused(model: Path, tmp_path: Path) -> None:
    picture(1).save(tmp_path / "a.png")
    (tmp_path / "texts.txt").write_text("a dog", encoding="utf-8")
    mixed = hasse("lab embed", tmp_path / "a.png", tmp_path / "texts.txt", "--model", model)
    assert "give one file of text" in mixed.error
    for absent in ("none.txt", "none.jpg"):
        assert "check the path" in hasse("lab embed", tmp_path / absent, "--model", model).error
