"""A small network of one's own, by commands alone: teacher, student, features, model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from hasse.lab.checkpoints.learned_model import load, order_embedding_of
from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.training.state import read_notes
from hasse.models.checkpoints.named_models import PRETRAINED
from hasse.models.datasets import load as load_dataset
from hasse.models.datasets import save
from hasse.models.errors import BackboneError
from hasse.studies.distillation.command import distill as commands
from hasse.studies.distillation.distillation import Distillation, DistillationConfig
from hasse.studies.distillation.pipeline import DistillationPlan
from tests.service.cli.shell import Outcome, hasse
from tests.service.cli.test_interruption import ctrl_c_at
from tests.studies.chosen import options
from tests.tiny import tiny_checkpoint

pytestmark = pytest.mark.slow

COUNT = 48
TINY = (
    *options("student=torchvision/mobilenet_v2", "side=48", "teacher_side=64"),
    *(*options("epochs=1", "batch_size=8"), "--device", "cpu"),
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
    outcome = hasse("lab data", "import", "folder", home / "pictures", "--out", home / "data")
    assert outcome.status == 0, outcome.err
    torch.manual_seed(0)
    save_file(
        build_backbone("torchvision/mobilenet_v2").network.state_dict(),
        home / "teacher.safetensors",
    )
    return home


def distill(home: Path, out: Path, *more: object) -> Outcome:
    return hasse(
        *("study distill", home / "data", "--weights", home / "teacher.safetensors"),
        *("--split", "", "--out", out, *TINY, *more),
    )


def test_student_of_a_distillation_makes_features_and_a_model(home: Path, tmp_path: Path) -> None:
    outcome = distill(home, tmp_path / "student")
    assert outcome.status == 0, outcome.err
    assert "explains" in outcome.err
    weights = tmp_path / "student" / "student.safetensors"
    assert str(weights) in outcome.out
    assert "--resize 48 --crop 48 --framing whole --out" in outcome.err
    again = distill(home, tmp_path / "student")
    assert again.status == 0, "a finished one is left as it is"
    more = distill(home, tmp_path / "more", "--start", weights)
    assert more.status == 0, more.err
    assert (tmp_path / "more" / "student.safetensors").read_bytes() != weights.read_bytes()
    looks = ("--resize", 64, "--crop", 64, "--framing", "whole")
    for command in (
        ("lab features", home / "data", "--backbone", "torchvision/mobilenet_v2",
         "--weights", weights, *looks, "--out", tmp_path / "features"),
        ("lab train", home / "data", "--features", tmp_path / "features", "--recipe", "order",
         *options("dimension=16", "word_dimension=8", "saved_dtype=float16", "epochs=1"),
         "--out", tmp_path / "model"),
    ):  # fmt: skip
        outcome = hasse(*command)
        assert outcome.status == 0, outcome.err
    model = order_embedding_of(load(tmp_path / "model"))
    assert model.preprocessing.framing == "whole"
    # Rounded before features were made, so that the stored network is the one that made them.
    kept = build_backbone("torchvision/mobilenet_v2", weights)
    assert model.images.backbone.fingerprint() == kept.fingerprint()
    # The model can teach in turn.
    taught = hasse(
        *("study distill", home / "data", "--teacher", tmp_path / "model", "--split", ""),
        *("--out", tmp_path / "taught", *TINY),
    )
    assert taught.status == 0, taught.err
    assert (tmp_path / "taught" / "student.safetensors").is_file()


def plan(
    home: Path, dataset: Path | None = None, **options: Any
) -> tuple[DistillationPlan, Callable[..., Distillation]]:
    """Return a plan to learn from the pictures, and what prepares it."""
    named: dict[str, Any] = {
        "split": "",
        "teacher": "torchvision/mobilenet_v2",
        "weights": home / "teacher.safetensors",
    }
    config = options.pop(
        "config", DistillationConfig("torchvision/mobilenet_v2", 48, 64, batch_size=8)
    )
    made = DistillationPlan.of(config, dataset or home / "data", **(named | options))

    @contextmanager
    def bars(label: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: None

    return made, partial(made.prepare, device="cpu", bars=bars, tell=lambda _: None)


def test_student_is_given_its_split_and_what_a_checkpoint_makes_of_features(
    home: Path, tmp_path: Path
) -> None:
    whole = load_dataset(home / "data")
    images = tuple(replace(one, split="train" if one.id <= 30 else "") for one in whole.images)
    save(replace(whole, images=images), tmp_path / "data")
    config = DistillationConfig("torchvision/mnasnet0_5", 48, 64, batch_size=8)
    chosen = {"split": "train", "teacher": "photographs", "weights": None, "config": config}
    made, prepare = plan(home, tmp_path / "data", **chosen)
    run = prepare(tmp_path / "student")
    for image, squeezed in zip(images[:30], run.pixels, strict=True):
        seen = Image.open(image.path).resize((64, 64), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(squeezed, seen)
    assert made.collection.images == images[:30]
    teacher = order_embedding_of(load(PRETRAINED / "photographs", to_learn=True)).images
    assert made.teacher.fingerprint() == teacher.backbone.fingerprint()
    assert made.projection is not None
    assert torch.equal(made.projection, teacher.projection.weight)
    assert made.start is None


def test_student_begins_with_the_network_of_a_checkpoint(home: Path) -> None:
    begun = order_embedding_of(load(PRETRAINED / "scenes", to_learn=True)).images.backbone
    config = DistillationConfig(begun.name, 48, 64, batch_size=8)
    made, _ = plan(home, start=Path("scenes"), config=config)
    given = build_backbone("torchvision/mobilenet_v2", home / "teacher.safetensors")
    assert made.teacher.fingerprint() == given.fingerprint()
    assert made.teacher.grid
    assert made.projection is None
    wanted = begun.network.state_dict()
    assert made.start is not None
    assert made.start.keys() == wanted.keys()
    assert all(made.start[key].equal(value) for key, value in wanted.items())


@pytest.mark.parametrize("side", [48, 64])
def test_side_that_a_network_cannot_take_is_told_before_the_pictures_are_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int
) -> None:
    def refuse(network: Backbone, given: int) -> None:
        if given == side:
            raise BackboneError(f"{network.name} cannot take {given}")

    monkeypatch.setattr(Backbone, "require_side", refuse)
    assert f"cannot take {side}" in distill(home, tmp_path / "student").error
    assert not (tmp_path / "student").exists()


def test_distillation_goes_on_where_ctrl_c_stopped_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distill(home, tmp_path / "whole").status == 0
    out = tmp_path / "stopped"
    kept = f"what is done is kept in {out}; the same command goes on from there"
    for reports, said in ((1, kept), (3, f"in epoch 1 of 1; {kept}")):
        with monkeypatch.context() as patch:
            ctrl_c_at(reports, commands, patch)
            stopped = distill(home, out)
        assert stopped.status == 130
        assert f"stopped: {said}\n" in stopped.err
    assert distill(home, out).status == 0
    ends = [(folder / "student.safetensors").read_bytes() for folder in (tmp_path / "whole", out)]
    assert ends[0] == ends[1]


def test_damaged_picture_is_named_and_left_out(home: Path, tmp_path: Path) -> None:
    whole = load_dataset(home / "data")
    gone = replace(whole.images[3], path=tmp_path / "gone.png")
    images = (*whole.images[:3], gone, *whole.images[4:])
    save(replace(whole, images=images), tmp_path / "data")
    teacher = ("--weights", home / "teacher.safetensors", "--split", "", *TINY)
    done = hasse(
        "study distill", tmp_path / "data", *teacher, "--workers", 3, "--out", tmp_path / "s"
    )
    assert done.status == 0
    assert f"image {gone.id} ({gone.file_name}): file not found: skipped" in done.err
    notes = read_notes(tmp_path / "s")
    assert notes is not None
    assert notes["pictures"][0] == COUNT - 1


def test_teacher_needs_weights_of_its_own_or_is_a_checkpoint(home: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "student")
    outcome = hasse(
        "study distill", home / "data", "--split", "", "--teacher", "torchvision/resnet18", *out
    )
    assert outcome.status == 1
    assert "--weights" in outcome.error


@pytest.mark.parametrize("student", ["torchvision/nosuch", "torchvision/shufflenet_v2_x0_5"])
def test_student_that_cannot_learn_is_refused_before_the_pictures_are_read(
    home: Path, tmp_path: Path, student: str
) -> None:
    outcome = distill(home, tmp_path / "student", *options(f"student={student}"))
    assert outcome.status == 1
    assert student.rpartition("/")[2] in outcome.error
    assert not (tmp_path / "student").exists()


def test_too_few_pictures_are_told_before_they_are_read(home: Path, tmp_path: Path) -> None:
    for many in (48, 10**20):
        outcome = distill(home, tmp_path / "student", *options(f"batch_size={many}"))
        assert f"a batch of {many:,} needs " in outcome.error
        assert not (tmp_path / "student").exists()


def test_checkpoint_of_another_network_cannot_be_the_start(home: Path, tmp_path: Path) -> None:
    tiny = tiny_checkpoint(tmp_path / "tiny")
    outcome = distill(home, tmp_path / "student", "--start", tiny)
    assert outcome.status == 1
    assert "torchvision/tiny" in outcome.error


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
    save_file(build_backbone("torchvision/mobilenet_v2").network.state_dict(), network)
    for dataset, more, differing in (
        (home / "data", options("teacher_side=72"), "config"),
        (home / "data", ("--weights", network), "teacher"),
        (home / "data", ("--start", network), "start"),
        (tmp_path / "fewer", (), "images"),
        (tmp_path / "others", (), "images"),
        (tmp_path / "fewer", options("seed=9"), "config"),
    ):
        outcome = hasse(
            *("study distill", dataset, "--weights", home / "teacher.safetensors", "--split", ""),
            *("--out", tmp_path / "student", *TINY, *more),
        )
        assert f"holds a training with another {differing} (" in outcome.error
        assert {path: path.read_bytes() for path in (tmp_path / "student").rglob("*.*")} == before
