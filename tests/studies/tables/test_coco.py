"""The steps of docs/papers.md, from COCO's files to the paper's table, on a few drawn pictures."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from hasse.lab.checkpoints.learned_model import load
from hasse.lab.encoders.registry import build_backbone
from hasse.models.datasets import load as load_dataset
from hasse.studies.tables import coco
from tests.service.cli.shell import hasse
from tests.tiny import TINY

pytestmark = pytest.mark.slow

NETWORK = TINY
# Karpathy's four splits, and how many pictures each has here.
SPLITS = {"train": 10, "restval": 6, "val": 5, "test": 10}
SMALL = ("--set", "dimension=16", "--set", "word_dimension=8", "--batch-size", 8, "--epochs", 2)


def run(*arguments: object) -> str:
    outcome = hasse(*arguments)
    assert outcome.status == 0, outcome.err
    return outcome.out


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, split file and network, and all that the steps make of them."""
    home = tmp_path_factory.mktemp("coco")
    rows, number = [], 0
    for split, count in SPLITS.items():
        folder = "train2014" if split == "train" else "val2014"
        (home / folder).mkdir(exist_ok=True)
        for _ in range(count):
            number += 1
            name = f"COCO_{folder}_{number:012d}.jpg"
            colours = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
            Image.fromarray(colours).resize((64, 48)).save(home / folder / name)
            texts = [f"picture {number} of {split}", *(f"a thing {n}" for n in range(5))]
            sentences = [
                {"raw": text, "sentid": 10 * number + at, "imgid": number}
                for at, text in enumerate(texts)
            ]
            rows.append(
                {
                    "cocoid": 100 + number,
                    "filename": name,
                    "filepath": folder,
                    "split": split,
                    "sentences": sentences,
                }
            )
    (home / "dataset_coco.json").write_text(json.dumps({"dataset": "coco", "images": rows}))
    torch.manual_seed(0)
    save_file(build_backbone(NETWORK).network.state_dict(), home / "network.safetensors")

    data = home / "data"
    run(
        "lab data",
        "import",
        "karpathy",
        home / "dataset_coco.json",
        "--images",
        home,
        "--out",
        data,
    )
    weights = ("--backbone", NETWORK, "--weights", home / "network.safetensors", "--resize", 40)
    run("lab features", data, *weights, "--crop", 32, "--crops", 10, "--out", home / "ten")
    run("lab features", data, *weights, "--crop", 32, "--out", home / "one")
    for recipe, features in (("order", "ten"), ("cosine", "one")):
        run(
            *("lab train", data, "--features", home / features, "--recipe", recipe, *SMALL),
            *("--out", home / recipe),
        )
    return home


def five(home: Path) -> Path:
    """Import the pictures once more, each with its first five captions."""
    document = json.loads((home / "dataset_coco.json").read_text())
    for image in document["images"]:
        assert len(image["sentences"]) == 6
        del image["sentences"][5:]
    (home / "five.json").write_text(json.dumps(document))
    run(
        "lab data",
        "import",
        "karpathy",
        home / "five.json",
        "--images",
        home,
        "--out",
        home / "five",
    )
    return home / "five"


def evaluation(home: Path, dataset: Path, *options: object) -> dict[str, Any]:
    measure = ("lab evaluate", dataset, "--model", home / "order", "--features", home / "ten")
    found: dict[str, Any] = json.loads(run(*measure, *options, "--json"))
    return found


def row_of_all(home: Path, *features: Path) -> dict[str, Any]:
    dataset = load_dataset(home / "data").split("test").first_captions(5)
    return asdict(coco.measured(load(home / "order"), dataset, features)[1])


def test_restval_is_learned_from_and_ids_are_cocos(home: Path) -> None:
    document = json.loads((home / "data" / "dataset.json").read_text())
    splits = [image["split"] for image in document["images"]]
    assert {split: splits.count(split) for split in splits} == {"train": 16, "val": 5, "test": 10}
    assert document["images"][0]["id"] == 101
    metrics = json.loads((home / "order" / "metrics.json").read_text())
    assert metrics["dataset"]["images"] == 16


def test_the_table_has_the_papers_rows_and_ours_as_evaluate_measures_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [str(home / "order"), str(home / "cosine")]
    features = ["--features", str(home / "one"), str(home / "ten")]
    coco.main([str(home / "data"), *models, *features])
    printed, told = capsys.readouterr()
    assert told == "captions beyond the first 5 of an image: 10, left out\n"
    in_blocks, over_all = printed.split("\n\n")
    assert "2 test images, mean of five" in in_blocks
    assert "10 test images" in over_all
    assert "| order-embeddings | 46.7 | 88.9 | 2.0 | 5.7 | 37.9 | 85.9 | 2.0 | 8.1 |" in in_blocks
    assert "| order-embeddings | 23.3 | 65.0 | 5.0 | 24.4 | 18.0 | 57.6 | 7.0 | 35.9 |" in over_all
    for half in (in_blocks, over_all):
        assert [row for row in half.splitlines() if "**order (order)**" in row]
        assert [row for row in half.splitlines() if "**cosine (cosine)**" in row]
        assert {row.count("|") for row in half.strip().splitlines()[1:]} == {10}

    evaluated = evaluation(home, home / "data", "--captions-per-image", 5)
    found = row_of_all(home, home / "one", home / "ten")
    for side, name in (("captions", "caption_retrieval"), ("images", "image_retrieval")):
        assert found[side] == {key: evaluated[name][key] for key in ("r1", "r10", "median", "mean")}
    row = next(line for line in over_all.splitlines() if "**order (order)**" in line)
    figures = [float(cell) for cell in re.findall(r"\| ([\d.]+)(?= )", row)]
    expected = [found[side][name] for side in ("captions", "images") for name in found[side]]
    assert figures == [round(value, 1) for value in expected]


def test_captions_beyond_those_asked_for_are_left_out_as_if_they_were_not_there(
    home: Path,
) -> None:
    first, every = (
        evaluation(home, home / "data", *options) for options in (("--captions-per-image", 5), ())
    )
    counts = ("captions_per_image", "captions_left_out", "captions")
    assert [first[count] for count in counts] == [5, 10, 50]
    assert [every[count] for count in counts] == [None, 0, 60]
    never_there = evaluation(home, five(home))
    said = {count: first[count] for count in counts}
    assert first == never_there | said
    shown = run(
        *("lab evaluate", home / "data", "--model", home / "order", "--features", home / "ten"),
        *("--captions-per-image", 5),
    )
    assert "10 images, 50 captions (first 5 of each, 10 left out); true by" in shown


def test_features_of_another_network_are_passed_over_for_the_pictures(home: Path) -> None:
    from_pictures = row_of_all(home)
    of_one_crop, of_ten_crops = (row_of_all(home, home / name) for name in ("one", "ten"))
    assert of_one_crop == from_pictures
    for side in ("captions", "images"):
        for name, value in from_pictures[side].items():
            assert value == pytest.approx(of_ten_crops[side][name], abs=10)
