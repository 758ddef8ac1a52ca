"""`hasse features`: what it cannot do is told before it begins, and in the end what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import save_file

from models import backbone
from models.datasets import Caption, Dataset, Image, save
from tests.service.cli.shell import hasse
from tests.service.collection import png


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


def test_features_of_pictures_that_left_the_dataset_are_not_counted(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    save_file(backbone.build_backbone("shufflenet_v2_x0_5").network.state_dict(), weights)
    images = [Image(at, f"{at}.png", tmp_path / f"{at}.png") for at in (1, 2, 3)]
    for image in images[:2]:
        image.path.write_bytes(png(image.id))
    command = (
        *("features", tmp_path, "--backbone", "shufflenet_v2_x0_5", "--weights", weights),
        *("--resize", 36, "--crop", 32, "--device", "cpu", "--out", tmp_path / "features"),
    )
    save(Dataset("three", tuple(images)), tmp_path)
    assert hasse(*command).out.endswith("features: 2 of 3 pictures\n")
    save(Dataset("two", tuple(images[1:])), tmp_path)
    assert hasse(*command).out.endswith("features: 1 of 2 pictures\n")


@pytest.mark.parametrize(
    "command",
    [
        ("features", "DATA", "--out", "OUT", "--weights", "mine.pth", "--batch-size"),
        ("features", "DATA", "--out", "OUT", "--weights", "mine.pth", "--views"),
        ("evaluate", "DATA", "--model", "photographs", "--split", "", "--batch-size"),
        ("index", "build", "DATA", "--model", "photographs", "--out", "OUT", "--batch-size"),
        ("index", "add", "OUT", "DATA", "--model", "photographs", "--batch-size"),
    ],
)
def test_more_at_a_time_than_fits_in_memory_is_refused(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    image = Image(1, "a.png", tmp_path / "a.png", captions=(Caption(1, 1, "a dog"),))
    image.path.write_bytes(png(1))
    save(Dataset("one", (image,)), tmp_path)
    places = {"DATA": tmp_path, "OUT": tmp_path / "out"}
    for many in (10_001, 10**20):
        refused = hasse(*(places.get(word, word) for word in command), many)
        assert refused.status == 2
        assert command[-1] in refused.err
    assert not (tmp_path / "out").exists()
