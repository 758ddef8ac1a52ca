"""`hasse features`: what it cannot do is told before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import backbone
from models.datasets import Dataset, Image, save
from tests.service.cli.shell import hasse


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "name the network's weights with --weights FILE"),
        (("--download-weights", "--weights", "mine.pth"), "--weights names mine.pth: leave it or"),
        (("--download-weights", "--parts", "--crops", 10), "parts are of one crop"),
        (("--download-weights", "--crop", 257), "a crop of 257 does not fit in a side of 256"),
        (("--download-weights", "--resize", 16_385), "resize is at most 16,384"),
    ],
)
def test_what_does_not_go_together_is_told_before_anything_is_fetched(
    options: tuple[object, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object) -> Path:
        raise AssertionError

    monkeypatch.setattr(backbone, "download_weights", fetch)
    save(Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),)), tmp_path)
    refused = hasse("features", tmp_path, "--out", tmp_path / "features", *options)
    assert said in refused.error
    assert not (tmp_path / "features").exists()
