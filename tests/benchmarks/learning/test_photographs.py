"""The table of the model for photographs measures both models, on the pictures themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from benchmarks.learning import photographs
from models.datasets import Caption, Dataset, Image, save
from tests.service.cli.shell import hasse
from tests.tiny import tiny_checkpoint


def test_both_models_are_measured_as_evaluate_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = []
    for at in range(1, 6):
        path = tmp_path / f"{at}.png"
        colours = np.random.default_rng(at).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        Pillow.fromarray(colours).resize((40, 30)).save(path)
        text = ("a dog", "a cat", "a child", "a person in a park", "red")[at - 1]
        images.append(Image(at, path.name, path, "val", captions=(Caption(at, at, text),)))
    data = save(Dataset("five", tuple(images)), tmp_path / "data").parent
    first, second = (tiny_checkpoint(tmp_path / name, seed=at) for at, name in enumerate("ab"))
    (first / "training.safetensors").write_bytes(bytes(10_000_000))
    photographs.main([str(data), str(first), "--model", str(second), "--rounds", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    for row, folder in zip(report["rows"], (first, second), strict=True):
        shown = hasse("evaluate", data, "--model", folder, "--split", "val", "--json")
        measured = json.loads(shown.out)
        assert row["rsum"] == pytest.approx(measured["rsum"])
        assert row["captions"][0] == pytest.approx(measured["caption_retrieval"]["r1"])
        assert row["images"][2] == pytest.approx(measured["image_retrieval"]["r10"])
        assert 0 < row["megabytes"] < 10, "what a training leaves to go on is no part of it"
        assert min(row["alone"], row["together"]) > 0
    teacher, student = report["rows"]
    assert report["ratios"]["rsum"] == pytest.approx(student["rsum"] / teacher["rsum"])

    photographs.main([str(data), str(first), "--model", str(second), "--rounds", "1"])
    printed = capsys.readouterr().out
    assert f"| {student['rsum']:.1f} (" in printed
    assert "third beside second" in printed
    assert report["ratios"]["alone_of_plain"] == pytest.approx(
        student["alone"] / report["plain"]["alone"]
    )
