"""`hasse lab features`: errors come before the work, and a summary after it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hasse.lab.encoders import registry
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.feature_store import FeatureStore, Maker
from hasse.lab.pipelines.training_inputs import WEIGHTS_NOTE
from hasse.models.datasets import Caption, Dataset, Image, save
from hasse.models.encoders.names import LITE
from hasse.models.images.preprocessing import Preprocessing
from tests.service.cli.shell import hasse
from tests.service.collection import png
from tests.tiny import TINY

# A network that is made in no time, which the usual one is not.
SMALL = ("--download-weights", "--backbone", TINY)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--backbone", "timm/resnet18"), "name the network's weights with --weights FILE"),
        (("--download-weights", "--weights", "mine.pth"), "--weights names mine.pth: leave it or"),
        (("--download-weights", "--regions", "--crops", 10), "regions need one crop"),
        ((*SMALL, "--crop", 257), "a crop of 257 does not fit in a side of 256"),
        ((*SMALL, "--resize", 16_385), "resize is at most 16,384"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_fetched(
    options: tuple[object, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object) -> Path:
        raise AssertionError

    monkeypatch.setattr(registry, "download_weights", fetch)
    save(Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),)), tmp_path)
    refused = hasse("lab features", tmp_path, "--out", tmp_path / "features", *options)
    assert said in refused.error
    assert not (tmp_path / "features").exists()


def test_network_that_is_installed_needs_no_option(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    save(Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),)), tmp_path)
    options = ("--out", tmp_path / "features", "--device", "cpu", "--resize", 64, "--crop", 64)
    done = hasse("lab features", tmp_path, *options)
    assert done.status == 0, done.err
    assert FeatureStore.open(tmp_path / "features").maker.backbone == LITE


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pictures and the weights of a network that ends in a grid."""
    home = tmp_path_factory.mktemp("home")
    images = tuple(Image(at, f"{at}.png", home / f"{at}.png") for at in (1, 2))
    for image in images:
        image.path.write_bytes(png(image.id))
    save(Dataset("two", images), home)
    torch.manual_seed(0)
    network = build_backbone("torchvision/mnasnet0_5").network.state_dict()
    save_file(network, home / "weights.safetensors")
    return home


def features(home: Path, out: Path, *more: object) -> tuple[object, ...]:
    network = ("--backbone", "torchvision/mnasnet0_5", "--device", "cpu")
    return ("lab features", home, *network, "--resize", 40, "--crop", 32, "--out", out, *more)


@pytest.mark.parametrize(
    ("options", "made", "regions"),
    [
        ((), {"framing": "centre"}, True),
        (("--no-regions", "--framing", "whole"), {"framing": "whole"}, False),
        (("--crops", 10), {"crops": 10}, False),
        (("--views", 2, "--regions"), {"views": 2}, True),
    ],
)
def test_features_are_made_as_the_options_say(
    home: Path, tmp_path: Path, options: tuple[object, ...], made: dict[str, Any], regions: bool
) -> None:
    weights = home / "weights.safetensors"
    done = hasse(*features(home, tmp_path / "f", "--weights", weights, *options))
    assert done.status == 0, done.err
    maker = FeatureStore.open(tmp_path / "f").maker
    looks = Preprocessing(40, 32, crops=made.get("crops", 1), framing=made.get("framing", "centre"))
    given = build_backbone("torchvision/mnasnet0_5", weights)
    views = made.get("views", 0)
    assert maker == Maker(
        "torchvision/mnasnet0_5", given.fingerprint(), 1280, looks, views, regions
    )


def test_network_without_a_grid_has_no_parts_unless_they_are_asked_for(
    home: Path, tmp_path: Path
) -> None:
    network = build_backbone(TINY).network.state_dict()
    save_file(network, tmp_path / "weights.safetensors")
    other = (
        "--backbone",
        TINY,
        "--weights",
        tmp_path / "weights.safetensors",
    )
    assert hasse(*features(home, tmp_path / "f", *other)).status == 0
    assert not FeatureStore.open(tmp_path / "f").maker.regions
    refused = hasse(*features(home, tmp_path / "regions", *other, "--regions"))
    assert "does not end in the average of a grid" in refused.error


def test_weights_that_were_fetched_are_used_and_noted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = home / "weights.safetensors"
    asked: list[str] = []

    def fetch(name: str, _tell: object) -> Path:
        asked.append(name)
        return weights

    monkeypatch.setattr(registry, "download_weights", fetch)
    done = hasse(*features(home, tmp_path / "f", "--download-weights"))
    assert done.status == 0, done.err
    assert asked == ["torchvision/mnasnet0_5"]
    assert FeatureStore.open(tmp_path / "f").maker.weights == (
        build_backbone("torchvision/mnasnet0_5", weights).fingerprint()
    )
    assert (tmp_path / "f" / WEIGHTS_NOTE).read_text() == str(weights)


def test_pictures_are_read_by_as_many_threads_and_seen_so_many_at_a_time_as_is_asked(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def extract(dataset: Dataset, *_: object, **more: Any) -> SimpleNamespace:
        asked.append(more)
        (tmp_path / "f").mkdir(exist_ok=True)
        return SimpleNamespace(
            folder=tmp_path / "f", image_ids=np.array([image.id for image in dataset.images])
        )

    monkeypatch.setattr("hasse.lab.features.extraction.extract", extract)
    monkeypatch.setattr("hasse.service.core.device.pick_device", lambda name: f"picked {name}")
    weights = ("--weights", home / "weights.safetensors")
    few = ("--batch-size", 5, "--workers", 3)
    assert hasse(*features(home, tmp_path / "f", *weights, *few)).status == 0
    assert hasse(*features(home, tmp_path / "f", *weights)).status == 0
    options = [more["options"] for more in asked]
    assert [(one.batch_size, one.workers, one.device) for one in options] == [
        (5, 3, "picked cpu"),
        (32, None, "picked cpu"),
    ]


def test_pictures_left_out_and_read_again_are_told(home: Path, tmp_path: Path) -> None:
    for name in ("1.png", "2.png"):
        shutil.copy(home / name, tmp_path)
    images = tuple(Image(at, f"{at}.png", tmp_path / f"{at}.png") for at in (1, 2, 3))
    save(Dataset("three", images), tmp_path)
    make = features(tmp_path, tmp_path / "f", "--weights", home / "weights.safetensors")
    assert "image 3 (3.png): file not found: skipped" in hasse(*make).err
    images[0].path.write_bytes(png(9))
    os.utime(images[0].path, (1, 1))
    again = hasse(*make)
    assert again.out.endswith("f: 2 of 3 pictures\n")
    assert "changed since their features were made: 1, read again" in again.err


def test_features_of_pictures_that_left_the_dataset_are_not_counted(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    save_file(build_backbone(TINY).network.state_dict(), weights)
    images = [Image(at, f"{at}.png", tmp_path / f"{at}.png") for at in (1, 2, 3)]
    for image in images[:2]:
        image.path.write_bytes(png(image.id))
    command = (
        *(
            "lab features",
            tmp_path,
            "--backbone",
            TINY,
            "--weights",
            weights,
        ),
        *("--resize", 36, "--crop", 32, "--device", "cpu", "--out", tmp_path / "features"),
    )
    save(Dataset("three", tuple(images)), tmp_path)
    assert hasse(*command).out.endswith("features: 2 of 3 pictures\n")
    save(Dataset("two", tuple(images[1:])), tmp_path)
    assert hasse(*command).out.endswith("features: 1 of 2 pictures\n")


@pytest.mark.parametrize(
    "command",
    [
        ("lab features", "DATA", "--out", "OUT", "--weights", "mine.pth", "--batch-size"),
        ("lab features", "DATA", "--out", "OUT", "--weights", "mine.pth", "--views"),
        ("lab evaluate", "DATA", "--model", "photographs", "--split", "", "--batch-size"),
        (
            "lab index build",
            "DATA",
            "--model",
            "photographs",
            "--library",
            "OUT",
            "--batch-size",
        ),
        ("add", "DATA", "--library", "OUT", "--model", "photographs", "--batch-size"),
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
