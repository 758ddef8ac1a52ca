"""`hasse lab train` on a folder of drawn shapes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import save_file

from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders.mixed_precision import supports_bfloat16
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.recipe import Recipe, find
from hasse.models.datasets import load, save
from hasse.models.encoders.names import LITE
from tests.service.cli.shapes import done
from tests.service.cli.shell import TINY_TRAINING, hasse
from tests.tiny import TINY
from tests.torchrun import torchrun


def test_train_starts_from_a_built_in_model_by_its_name(home: Path, tmp_path: Path) -> None:
    train = ("lab train", home / "data", "--out", tmp_path, *TINY_TRAINING, "--start", "scenes")
    assert "scenes has another shape (" in hasse(*train).error


def test_train_options_are_passed_on_and_override_set(home: Path, tmp_path: Path) -> None:
    asked = {
        "backbone": "torchvision/mnasnet0_5",
        "epochs": 2,
        "batch_size": 7,
        "learning_rate": 0.003,
        "seed": 4,
    }
    options = [
        word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    out, more = tmp_path / "model", ("--set", "seed=9", "--set", "length=unit")
    done(hasse("lab train", home / "data", *TINY_TRAINING, *options, *more, "--out", out))
    config = json.loads((out / "metrics.json").read_bytes())["training"]
    described = config | config["model"]
    assert {name: described[name] for name in asked} == asked
    usual = Recipe.read(find("scenes")).config
    kept = ("loss", "entailment", "captions_per_image", "schedule", "weight_decay", "saved_dtype")
    assert {name: config[name] for name in kept} == {name: getattr(usual, name) for name in kept}


def test_train_suits_the_batch_to_the_images_unless_one_is_given(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def smaller(config: TrainingConfig, images: int) -> TrainingConfig:
        counted.append(images)
        return replace(config, batch_size=5)

    monkeypatch.setattr(TrainingConfig, "for_images", smaller)
    learn = ("lab train", home / "data", *TINY_TRAINING, "--epochs", 1)
    done(hasse(*learn, "--out", tmp_path / "asked"))
    assert counted == []
    usual = [word for word in learn if word not in {"--batch-size", "6"}]
    done(hasse(*usual, "--out", tmp_path / "suited"))
    assert counted == [22], "of 24, two choose the best epoch"
    for name, size in (("asked", 6), ("suited", 5)):
        trained = json.loads((tmp_path / name / "metrics.json").read_bytes())["training"]
        assert trained["batch_size"] == size


def test_train_learns_from_one_split_and_validates_on_another(home: Path, tmp_path: Path) -> None:
    whole = load(home / "data")
    parts = ("mine",) * 9 + ("choice",) * 5 + ("test",) * 10
    images = (replace(one, split=part) for one, part in zip(whole.images, parts, strict=True))
    save(replace(whole, images=tuple(images)), tmp_path / "data")
    out = tmp_path / "model"
    learn = ("lab train", tmp_path / "data", *TINY_TRAINING, "--epochs", 1, "--out", out)
    told = done(hasse(*learn, "--train-split", "mine", "--val-split", "choice")).err
    found = json.loads((out / "metrics.json").read_bytes())
    assert found["dataset"]["images"] == 9
    assert found["history"][0]["validation"]["images"] == 5
    assert "no splits" not in told
    assert f"next: hasse lab evaluate {tmp_path / 'data'} --model {out}\n" in told


def test_train_prints_a_line_for_each_epoch(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    told = done(hasse("lab train", home / "data", *TINY_TRAINING, "--epochs", 3, "--out", out)).err
    lines = [line for line in told.splitlines() if line.startswith("epoch ")]
    history = json.loads((out / "metrics.json").read_bytes())["history"]
    best = -1.0
    assert len(lines) == 3
    for line, epoch in zip(lines, history, strict=False):
        found = epoch["validation"]
        captions, images = (found[f"{kind}_retrieval"]["r1"] for kind in ("caption", "image"))
        is_best, best = found["rsum"] > best, max(best, found["rsum"])
        assert line == (
            f"epoch {epoch['epoch']} of 3: loss {epoch['loss']:.3f}, R@1 {captions:.1f} captions "
            f"by image, {images:.1f} images by caption, rsum {found['rsum']:.1f}"
            + (" (best so far)" if is_best else "")
        )


def test_train_start_begins_with_the_weights_of_another_model(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    start = ("--start", home / "model", "--epochs", 1, "--out", out)
    done(hasse("lab train", home / "data", *TINY_TRAINING, *start))
    begun = json.loads((out / "metrics.json").read_bytes())["start"]
    assert begun == learned_model.load(home / "model").fingerprint


def test_train_names_the_model_as_its_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    done(hasse("lab train", home / "data", *TINY_TRAINING, "--epochs", 1, "--out", "."))
    assert learned_model.load(tmp_path / "mine").name == "mine"


def test_train_without_splits_says_which_pictures_validate(home: Path) -> None:
    again = hasse(
        "lab train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1
    )
    assert "no splits: 2 of 24 pictures are not learned from" in done(again).err


def test_train_again_does_nothing_and_another_training_is_refused(home: Path) -> None:
    before = (home / "model" / "model.safetensors").read_bytes()
    command = ("lab train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1)
    advised = f"hasse lab evaluate {home / 'data'} --model {home / 'model'}"
    assert advised in done(hasse(*command)).err
    assert (home / "model" / "model.safetensors").read_bytes() == before
    refused = hasse(
        "lab train",
        home / "data",
        "--out",
        home / "model",
        *TINY_TRAINING,
        "--epochs",
        1,
        "--seed",
        9,
    )
    assert refused.status == 1
    assert "another config" in refused.error


def test_train_refuses_another_training_before_it_replaces_pictures(
    home: Path, tmp_path: Path
) -> None:
    network = tmp_path / "network.safetensors"
    save_file(build_backbone(TINY).network.state_dict(), network)
    whole = load(home / "data")
    save(replace(whole, images=whole.images[1:]), tmp_path / "fewer")
    shutil.copytree(home / "model", tmp_path / "model")
    before = {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.*")}
    for dataset, options, differing in (
        (home / "data", ("--set", "resize=40"), "config"),
        (home / "data", ("--weights", network), "network"),
        (tmp_path / "fewer", (), "text"),
        (tmp_path / "fewer", ("--seed", 9), "config"),
    ):
        train = ("lab train", dataset, "--out", tmp_path / "model", *TINY_TRAINING, "--epochs", 1)
        assert f"another {differing} (" in hasse(*train, *options).error
        assert {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.*")} == before


def test_train_refuses_a_network_that_cannot_learn_before_reading_pictures(
    home: Path, tmp_path: Path
) -> None:
    for options, said in (
        (("--backbone", "torchvision/nosuch"), "no classification network 'nosuch'"),
        (("--weights", tmp_path / "none.pth"), "there is no weights file"),
        (("--set", "image_pooling=max"), "has no regions"),
        (("--backbone", "torchvision/vit_b_16"), "cannot take pictures of 32 x 32 pixels"),
    ):
        train = ("lab train", home / "data", "--out", tmp_path / "model", *TINY_TRAINING)
        assert said in hasse(*train, *options).error
        assert not list((tmp_path / "model").glob("*"))


def test_train_uses_bfloat16_where_the_device_supports_it_or_it_is_asked(
    home: Path, tmp_path: Path
) -> None:
    learn = ("lab train", home / "data", *TINY_TRAINING, "--epochs", 1)
    usual = "bfloat16" if supports_bfloat16("cpu") else "float32"
    for asked, used in ((None, usual), ("bfloat16", "bfloat16"), ("float32", "float32")):
        out = tmp_path / str(asked)
        chosen = ("--set", f"precision={asked}") if asked else ()
        done(hasse(*learn, *chosen, "--out", out))
        assert json.loads((out / "metrics.json").read_bytes())["training"]["precision"] == used


@pytest.mark.parametrize("named", [("--backbone",), ("--set", "backbone")])
def test_train_pools_a_named_backbone_by_average_unless_asked(
    home: Path, tmp_path: Path, named: tuple[str, ...]
) -> None:
    *before, last = named
    network = (*before, f"{last}={TINY}")
    asked = ("--set", "dimension=16", "--set", "word_dimension=8", "--set", "resize=36")
    learn = ("lab train", home / "data", *network, *asked, "--set", "crop=32", "--epochs", 1)
    for recipe in ("scenes", "hasse"):
        done(hasse(*learn, "--recipe", recipe, "--out", tmp_path / recipe))
        described = json.loads((tmp_path / recipe / "config.json").read_bytes())
        assert described["model"]["image_pooling"] == "average"
    parts = hasse(*learn, "--set", "image_pooling=regions", "--out", tmp_path / "parts")
    assert "has no regions" in parts.error


@pytest.mark.parametrize("kind", ["retrieval", "entailment"])
def test_train_does_not_overwrite_a_model_of_another_origin(
    home: Path, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(home / "model", tmp_path / "model")
    (tmp_path / "model" / "training.safetensors").unlink()
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"kind": kind}))
    before = {path: path.read_bytes() for path in sorted((tmp_path / "model").glob("*.*"))}
    command = ("lab train", home / "data", *TINY_TRAINING, "--epochs", 1)
    refused = hasse(*command, "--out", tmp_path / "model")
    assert "holds a model already: choose another --out" in refused.error
    assert {path: path.read_bytes() for path in sorted((tmp_path / "model").glob("*.*"))} == before


def test_train_by_the_recipe_beside_a_model_makes_the_same_model(
    home: Path, tmp_path: Path
) -> None:
    learn = ("lab train", home / "data", *TINY_TRAINING, "--epochs", 1, "--seed", 3)
    done(hasse(*learn, "--set", "margin=0.125", "--out", tmp_path / "first"))
    recipe = tmp_path / "first" / "recipe.toml"
    again = ("lab train", home / "data", "--recipe", recipe, "--device", "cpu")
    done(hasse(*again, "--out", tmp_path / "again"))
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "again")]
    assert models[0] == models[1]
    assert (tmp_path / "again" / "recipe.toml").read_bytes() == recipe.read_bytes()


@pytest.mark.slow
def test_torchrun_trains_one_model_and_only_the_first_process_prints(
    home: Path, tmp_path: Path
) -> None:
    learn = (*TINY_TRAINING, "--backbone", LITE, "--epochs", 2)
    train = ("train", home / "data", "--out", tmp_path / "model", *learn)
    done = torchrun("hasse", "lab", *train)
    assert done.stdout.count("the model model") == 1
    assert done.stderr.count("epoch 2 of 2: loss") == 1
    assert done.stderr.count("red-circle.png") == 1
    assert (tmp_path / "model" / "model.safetensors").is_file()
