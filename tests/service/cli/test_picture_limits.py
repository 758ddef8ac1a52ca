"""HASSE_PICTURE_PIXELS holds for every command that decodes pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import save_file
from torchvision.models import shufflenet_v2_x0_5

from tests.service.cli.shell import hasse
from tests.tiny import tiny_checkpoint

LIMIT = 10_000
REFUSED = "310 x 340 pixels are more than the limit of 100,000"


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of a small picture, one to be reduced, and one that is too large."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, size in (("small", (90, 90)), ("reduced", (300, 300)), ("large", (310, 340))):
        Image.radial_gradient("L").resize(size).convert("RGB").save(folder / f"{name}.jpg")
    Image.new("RGB", (300, 300)).save(folder / "not_reduced.png")
    monkeypatch.setenv("HASSE_PICTURE_PIXELS", str(LIMIT))
    return folder


def test_pixel_limit_holds_for_index_add_and_search(pictures: Path, tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    added = hasse("add", pictures, "--library", tmp_path / "index", "--model", model)
    assert added.out.startswith("2 pictures added; 2 problems (too large a picture: 2)")
    assert REFUSED in added.err
    assert "300 x 300 pixels are more than the limit of 10,000" in added.err
    assert "a larger HASSE_PICTURE_PIXELS" in added.err
    single = hasse("add", pictures / "large.jpg", "--library", tmp_path / "index")
    assert REFUSED in single.err
    searched = hasse("like", pictures / "large.jpg", "--library", tmp_path / "index")
    assert REFUSED in searched.error
    reduced = hasse("like", pictures / "reduced.jpg", "--library", tmp_path / "index")
    assert reduced.status == 0, reduced.err


def test_pixel_limit_holds_for_import_build_and_features(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, index, features = tmp_path / "data", tmp_path / "index", tmp_path / "features"
    weights = tmp_path / "weights.safetensors"
    save_file(shufflenet_v2_x0_5().state_dict(), weights)
    imported = hasse("lab data", "import", "folder", pictures, "--out", data, "--json")
    assert json.loads(imported.out)["problems"]["by_reason"] == {"too large a picture": 2}
    monkeypatch.setenv("HASSE_PICTURE_PIXELS", "800")  # now 90 x 90 is above ten times the limit
    said = "90 x 90 pixels are more than the limit of 8,000"
    network = ("--backbone", "torchvision/shufflenet_v2_x0_5", "--weights", weights)
    for command in (
        ("lab index build", data, "--library", index),
        ("lab features", data, "--out", features, *network),
    ):
        assert said in hasse(*command).err
