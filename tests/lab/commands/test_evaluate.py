"""`hasse lab evaluate` on a model that `hasse lab train` made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasse.lab.commands import evaluate
from tests.service.cli.shapes import done
from tests.service.cli.shell import hasse


def test_evaluate_measures_what_train_made(home: Path) -> None:
    measured = done(
        hasse(
            *("lab evaluate", home / "data", "--model", home / "model", "--split", ""),
            *("--json", "--out", home / "metrics.json", "--folds", 2),
        )
    )
    document = json.loads(measured.out)
    assert document == json.loads((home / "metrics.json").read_text())
    assert document["images"] == 23
    assert document["captions"] == 46
    assert document["model"] == "model"
    assert 0 < document["rsum"] <= 600


def test_evaluate_refuses_a_block_without_captions(home: Path, tmp_path: Path) -> None:
    document = json.loads((home / "data" / "dataset.json").read_text())
    first = [note for note in document["annotations"] if note["image_id"] == 1]
    (tmp_path / "dataset.json").write_text(json.dumps(document | {"annotations": first}))
    measure = ("lab evaluate", tmp_path, "--model", home / "model", "--split", "")
    done(hasse(*measure))
    assert "one of 2 blocks has no caption" in hasse(*measure, "--folds", 2).error


def test_evaluate_says_one_image_and_not_images(home: Path, tmp_path: Path) -> None:
    document = json.loads((home / "data" / "dataset.json").read_text())
    one = {"images": document["images"][:1], "annotations": document["annotations"][:1]}
    (tmp_path / "dataset.json").write_text(json.dumps(document | one))
    measure = ("lab evaluate", tmp_path, "--model", home / "model", "--split", "")
    assert "\n1 image, 1 caption; true by" in done(hasse(*measure)).out
    assert "2 blocks cannot be made of 1 image: use" in hasse(*measure, "--folds", 2).error
    assert (
        "has 1 image and no splits" in hasse("lab train", tmp_path, "--out", tmp_path / "m").error
    )


def test_evaluate_prints_both_directions(home: Path) -> None:
    shown = done(hasse("lab evaluate", home / "data", "--model", home / "model", "--split", ""))
    assert "captions by image" in shown.out
    assert "images by caption" in shown.out
    assert "R@10" in shown.out
    assert "\n23 images, 46 captions; true by " in shown.out
    assert shown.out.endswith("; 95 % intervals over images; model model\n")


def test_evaluate_measures_the_first_captions_in_blocks(home: Path) -> None:
    measure = ("lab evaluate", home / "data", "--model", home / "model", "--split", "")
    first = (*measure, "--captions-per-image", 1, "--folds", 2)
    shown = done(hasse(*first, "--out", home / "new" / "folder" / "first.json"))
    left_out = "23 images, 23 captions (first 1 of each, 23 left out), mean of 2 blocks; true by"
    assert left_out in shown.out
    document = json.loads((home / "new" / "folder" / "first.json").read_text())
    assert [document[name] for name in ("captions_per_image", "captions_left_out")] == [1, 23]


def test_evaluate_prints_what_was_measured(home: Path) -> None:
    measure = ("lab evaluate", home / "data", "--model", home / "model", "--split", "")
    document = json.loads(done(hasse(*measure, "--json")).out)
    rows = done(hasse(*measure)).out.splitlines()
    for key, label in evaluate.DIRECTIONS:
        (row,) = [row for row in rows if row.startswith(label)]
        shown = [f"{document[key][name]:.1f}" for name, _ in evaluate.COLUMNS]
        assert row.removeprefix(label).split() == shown


def test_evaluate_refuses_before_anything_is_encoded(home: Path) -> None:
    measure = ("lab evaluate", home / "data", "--model", home / "model", "--split", "")
    refused = hasse(*measure, "--folds", 100, "--against", home / "none")
    assert "none holds no model" in refused.error, "before it is told of the blocks"
    by_name = hasse(*measure, "--folds", 100, "--against", "scenes")
    assert "100 blocks cannot be made of" in by_name.error
    alone = hasse(*measure, "--against-features", home / "features")
    assert "there is no --against: name" in alone.error


def test_evaluate_prints_its_result_where_the_file_cannot_be_written(home: Path) -> None:
    measure = ("lab evaluate", home / "data", "--model", home / "model", "--split", "")
    shown = hasse(*measure, "--out", home)
    assert shown.status == 1
    assert "is a directory" in shown.error
    assert "captions by image" in shown.out


def test_evaluate_against_compares_two_models(home: Path, tmp_path: Path) -> None:
    model, out = home / "model", tmp_path / "evaluation.json"
    measure = ("lab evaluate", home / "data", "--model", model, "--against", model)
    shown = done(hasse(*measure, "--split", "", "--out", out))
    assert "difference: rsum +0.0 (+0.0 to +0.0), within chance" in shown.out
    document = json.loads(out.read_text())
    assert document["against"]["difference"]["rsum"] == 0
    assert document["against"]["difference"]["intervals"]["rsum"] == [0, 0]
    assert document["against"]["intervals"] == document["intervals"]


def test_evaluate_without_splits_measures_the_pictures_that_train_withholds(home: Path) -> None:
    measure = ("lab evaluate", home / "data", "--model", home / "model")
    shown = done(hasse(*measure, "--json"))
    assert "measuring the 2 pictures of 24 that 'hasse lab train' does not learn from" in shown.err
    measured = json.loads(shown.out)
    trained = json.loads((home / "model" / "metrics.json").read_bytes())
    best = max(trained["history"], key=lambda row: row["validation"]["rsum"])
    assert measured["images"] == best["validation"]["images"]
    assert measured["rsum"] == pytest.approx(best["validation"]["rsum"])
