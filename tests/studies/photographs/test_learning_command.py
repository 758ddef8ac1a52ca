"""`hasse study photographs calibrate` and `evaluate` on chains of a folder of shapes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hasse.lab.checkpoints import learned_model
from tests.service.cli.shapes import done
from tests.service.cli.shell import hasse


@pytest.fixture
def chains(home: Path, tmp_path: Path) -> Path:
    document = json.loads((home / "data" / "dataset.json").read_text())
    own: dict[int, str] = {}
    for note in document["annotations"]:
        own.setdefault(note["image_id"], note["caption"])
    rows = [
        {"image_id": image, "chain": [f"thing {image}", caption]} for image, caption in own.items()
    ]
    path = tmp_path / "chains.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_evaluate_measures_truth_on_chains(home: Path, chains: Path, tmp_path: Path) -> None:
    measure = ("study photographs evaluate", home / "data", "--model", home / "model")
    found = json.loads(done(hasse(*measure, "--split", "", "--chains", chains, "--json")).out)
    assert found["chains"] == 23
    for kind in ("violation", "probability"):
        for part in ("0", "1", "all", "specific_true_general_false"):
            auc = found[kind][part]["auc"]
            assert 0 <= auc["low"] <= auc["value"] <= auc["high"] <= 1
        assert -1 <= found[kind]["tau"]["value"] <= 1
    for kind in ("hierarchy", "hierarchy_by_depth"):
        assert set(found[kind]) == {"precision", "recall", "depth_correlation"}
    shown = done(hasse(*measure, "--split", "", "--chains", chains)).out
    assert "probability on chains" in shown
    assert "specific true, general false" in shown
    assert "; 23 chains\n" in shown
    assert "short texts: expected calibration error" in shown
    one = tmp_path / "one.jsonl"
    one.write_text(chains.read_text().splitlines()[0] + "\n")
    assert "give more chains" in hasse(*measure, "--split", "", "--chains", one).error


def test_calibrate_stores_a_calibration_and_keeps_the_fingerprint(
    home: Path, chains: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(home / "model", model)
    before = learned_model.load(model)
    fit = ("study photographs calibrate", home / "data", "--model", model, "--split", "")
    assert "of them true; each further word adds" in done(hasse(*fit, "--chains", chains)).out
    after = learned_model.load(model)
    assert after.fingerprint == before.fingerprint
    assert after.calibration.image is not None
    assert after.calibration.image.true == 2 * 23
    alone = hasse(*fit, "--chains", chains, "--classes", tmp_path / "classes.jsonl")
    assert "--classes and --class-pictures go together" in alone.error
