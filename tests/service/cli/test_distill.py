"""A small network of one's own, by commands alone: teacher, student, features, model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from models import distillation
from models.backbone import build_backbone
from models.checkpoint import PRETRAINED, load
from models.datasets import load as load_dataset
from models.datasets import save
from models.distillation import DistillationConfig
from models.files import alone_in
from tests.service.cli.shell import Outcome, hasse
from tests.tiny import tiny_checkpoint

COUNT = 48
TINY = (
    *("--student", "mobilenet_v2", "--side", 48, "--teacher-side", 64),
    *("--epochs", 1, "--batch-size", 8, "--device", "cpu"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two colours, wide and high, and the weights of a teacher."""
    home = tmp_path_factory.mktemp("home")
    (home / "pictures").mkdir()
    for at in range(COUNT):
        colours = np.random.default_rng(at).integers(0, 256, (1, 2, 3), dtype=np.uint8)
        path = home / "pictures" / f"{at:02d}.png"
        Image.fromarray(colours).resize((90, 60) if at % 2 else (60, 90)).save(path)
        path.with_suffix(".txt").write_text(f"picture {at}\n")
    outcome = hasse("data", "import", "folder", home / "pictures", "--out", home / "data")
    assert outcome.status == 0, outcome.err
    torch.manual_seed(0)
    save_file(build_backbone("mobilenet_v2").network.state_dict(), home / "teacher.safetensors")
    return home


def distill(home: Path, out: Path, *more: object) -> Outcome:
    return hasse(
        *("distill", home / "data", "--weights", home / "teacher.safetensors"),
        *("--split", "", "--out", out, *TINY, *more),
    )


def test_what_a_student_learned_makes_features_and_a_model(home: Path, tmp_path: Path) -> None:
    outcome = distill(home, tmp_path / "student")
    assert outcome.status == 0, outcome.err
    assert "explains" in outcome.err
    weights = tmp_path / "student" / "student.safetensors"
    assert str(weights) in outcome.out
    again = distill(home, tmp_path / "student")
    assert again.status == 0, "a finished one is left as it is"
    more = distill(home, tmp_path / "more", "--start", weights)
    assert more.status == 0, more.err
    assert (tmp_path / "more" / "student.safetensors").read_bytes() != weights.read_bytes()
    looks = ("--resize", 64, "--crop", 64, "--framing", "whole")
    for command in (
        ("features", home / "data", "--backbone", "mobilenet_v2", "--weights", weights, *looks,
         "--out", tmp_path / "features"),
        ("train", home / "data", "--features", tmp_path / "features", "--preset", "order",
         "--dimension", 16, "--set", "word_dimension=8", "--set", "saved_dtype=float16",
         "--epochs", 1, "--out", tmp_path / "model"),
    ):  # fmt: skip
        outcome = hasse(*command)
        assert outcome.status == 0, outcome.err
    model = load(tmp_path / "model").model
    assert model.preprocessing.framing == "whole"
    # Rounded before features were made, so that the stored network is the one that made them.
    kept = build_backbone("mobilenet_v2", weights)
    assert model.images.backbone.fingerprint() == kept.fingerprint()
    # The model can teach in turn.
    taught = hasse(
        *("distill", home / "data", "--teacher", tmp_path / "model", "--split", ""),
        *("--out", tmp_path / "taught", *TINY),
    )
    assert taught.status == 0, taught.err
    assert (tmp_path / "taught" / "student.safetensors").is_file()


def test_a_student_is_given_its_split_and_what_a_checkpoint_makes_of_features(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[DistillationConfig, int, Any]] = []

    def distil(
        config: DistillationConfig, pixels: Sequence[object], _: object, out: Path, **more: Any
    ) -> Path:
        asked.append((config, len(pixels), more["projection"]))
        return out / "student.safetensors"

    monkeypatch.setattr(distillation, "distil", distil)
    monkeypatch.setattr("models.product.multiplies_bfloat16", lambda device: device != "cpu")
    whole = load_dataset(home / "data")
    images = tuple(replace(one, split="train" if one.id <= 30 else "") for one in whole.images)
    save(replace(whole, images=images), tmp_path / "data")
    done = hasse(
        *("distill", tmp_path / "data", "--teacher", "photographs", "--seed", 5, *TINY),
        *("--out", tmp_path / "student"),
    )
    assert done.status == 0, done.err
    ((config, pictures, projection),) = asked
    assert config == DistillationConfig(
        student="mobilenet_v2",
        side=48,
        teacher_side=64,
        epochs=1,
        batch_size=8,
        bfloat16=False,
        seed=5,
    )
    assert pictures == 30
    teacher = load(PRETRAINED / "photographs", to_learn=True).model.images
    assert torch.equal(projection, teacher.projection.weight)
    assert "--resize 48 --crop 48 --framing whole --out" in done.err


def test_a_teacher_needs_weights_of_its_own_or_is_a_checkpoint(home: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "student")
    outcome = hasse("distill", home / "data", "--split", "", "--teacher", "resnet18", *out)
    assert outcome.status == 1
    assert "--weights" in outcome.error


def test_options_that_nothing_is_learned_with_are_one_sentence(home: Path, tmp_path: Path) -> None:
    for option, value in (
        ("--learning-rate", "nan"),
        ("--learning-rate", -1),
        ("--learning-rate", "1e30"),
        ("--seed", -1),
        ("--side", 10**20),
        ("--teacher-side", 10**20),
    ):
        outcome = distill(home, tmp_path / "student", option, value)
        assert "do not go together" in outcome.error
        assert option[2:].replace("-", "_") in outcome.error


@pytest.mark.parametrize("student", ["nosuch", "shufflenet_v2_x0_5"])
def test_a_student_that_cannot_learn_is_refused_before_the_pictures_are_read(
    home: Path, tmp_path: Path, student: str
) -> None:
    outcome = distill(home, tmp_path / "student", "--student", student)
    assert outcome.status == 1
    assert student in outcome.error
    assert not (tmp_path / "student").exists()


def test_too_few_pictures_are_told_before_they_are_read(home: Path, tmp_path: Path) -> None:
    for many in (48, 10**20):
        outcome = distill(home, tmp_path / "student", "--batch-size", many)
        assert f"a batch of {many:,} needs " in outcome.error
        assert not (tmp_path / "student").exists()


def test_a_checkpoint_of_another_network_cannot_be_the_start(home: Path, tmp_path: Path) -> None:
    tiny = tiny_checkpoint(tmp_path / "tiny")
    outcome = distill(home, tmp_path / "student", "--start", tiny)
    assert outcome.status == 1
    assert "shufflenet_v2_x0_5" in outcome.error


def test_a_teacher_without_a_grid_is_refused(home: Path, tmp_path: Path) -> None:
    save_file(
        build_backbone("shufflenet_v2_x0_5").network.state_dict(), tmp_path / "weights.safetensors"
    )
    outcome = hasse(
        *("distill", home / "data", "--teacher", "shufflenet_v2_x0_5", "--split", ""),
        *("--weights", tmp_path / "weights.safetensors", "--out", tmp_path / "student"),
    )
    assert outcome.status == 1
    assert "average of a grid" in outcome.error
    assert "--no-parts" not in outcome.error, "that is another command's option"


def test_two_distillations_do_not_mix(home: Path, tmp_path: Path) -> None:
    with alone_in(tmp_path):
        assert "another process is writing" in distill(home, tmp_path).error
    assert list(tmp_path.iterdir()) == []


def test_another_distillation_is_refused_before_it_takes_the_place_of_the_folders_pictures(
    home: Path, tmp_path: Path
) -> None:
    done = distill(home, tmp_path / "student")
    assert done.status == 0, done.err
    before = {path: path.read_bytes() for path in (tmp_path / "student").rglob("*.*")}
    whole = load_dataset(home / "data")
    first, *others = whole.images
    save(replace(whole, images=tuple(others)), tmp_path / "fewer")
    renamed = replace(first, file_name="new.png", path=home / "pictures" / "01.png")
    save(replace(whole, images=(renamed, *others)), tmp_path / "others")
    torch.manual_seed(1)
    network = tmp_path / "network.safetensors"
    save_file(build_backbone("mobilenet_v2").network.state_dict(), network)
    for dataset, options, differing in (
        (home / "data", ("--teacher-side", 72), "config"),
        (home / "data", ("--weights", network), "teacher"),
        (home / "data", ("--start", network), "start"),
        (tmp_path / "fewer", (), "images"),
        (tmp_path / "others", (), "images"),
        (tmp_path / "fewer", ("--seed", 9), "config"),
    ):
        outcome = hasse(
            *("distill", dataset, "--weights", home / "teacher.safetensors", "--split", ""),
            *("--out", tmp_path / "student", *TINY, *options),
        )
        assert f"holds another distillation ({differing}: " in outcome.error
        assert {path: path.read_bytes() for path in (tmp_path / "student").rglob("*.*")} == before
