"""The table of a model for photographs measures recalls and short queries, on the pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from hasse.lab.checkpoints.learned_model import load
from hasse.models.datasets import Caption, Dataset, Image, save
from hasse.studies.tables import photographs
from hasse.studies.wordnet.lexicon import Lexicon
from tests.service.cli.shell import hasse
from tests.tiny import tiny_checkpoint
from tests.wordnet import write_wordnet

CAPTIONS = ("a blue bird sits", "a blue bird", "a black dog on a branch", "a man", "the dog runs")


def images(folder: Path) -> tuple[Image, ...]:
    found = []
    for at, text in enumerate(CAPTIONS, start=1):
        path = folder / f"{at}.png"
        colours = np.random.default_rng(at).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        Pillow.fromarray(colours).resize((40, 30)).save(path)
        found.append(Image(at, path.name, path, "val", captions=(Caption(at, at, text),)))
    return tuple(found)


def test_queries_are_the_pairs_and_nouns_of_most_pictures(tmp_path: Path) -> None:
    lexicon = Lexicon.read(write_wordnet(tmp_path / "wordnet"))
    assert photographs.queries(images(tmp_path), lexicon) == {
        **{"a bird": {1, 2}, "a dog": {3, 5}, "a branch": {3}, "a man": {4}},
        "a blue bird": {1, 2},
    }


def test_table_measures_as_evaluate_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save(Dataset("five", images(tmp_path)), tmp_path / "data").parent
    model = tiny_checkpoint(tmp_path / "model")
    options = [str(data), "--model", str(model), "--wordnet"]
    options.append(str(write_wordnet(tmp_path / "wordnet")))
    lexicon = Lexicon.read(Path(options[-1]))
    row = photographs.row(load(model), Dataset("five", images(tmp_path)), lexicon)
    shown = hasse("lab evaluate", data, "--model", model, "--split", "val", "--json")
    measured = json.loads(shown.out)
    assert row["rsum"] == pytest.approx(measured["rsum"])
    assert row["caption_retrieval"][0] == pytest.approx(measured["caption_retrieval"]["r1"])
    assert row["image_retrieval"][2] == pytest.approx(measured["image_retrieval"]["r10"])
    assert row["right"] + len(row["wrong"]) == row["queries"] == 5

    photographs.main(options)
    printed = capsys.readouterr().out
    assert f"| {row['right']} of 5 |" in printed
