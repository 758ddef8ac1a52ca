"""A person's way through Hasse on their own pictures, with nothing but commands."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from models.checkpoints import checkpoint
from models.datasets import load, save
from models.encoders.backbone import build_backbone
from models.training.config import TrainingConfig
from models.training.presets import PRESETS, Preset
from service.cli.model import evaluate
from tests.service.cli.shell import TINY_TRAINING, Outcome, hasse
from tests.torchrun import torchrun

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square")
TINY_FEATURES = ("--backbone", "shufflenet_v2_x0_5", "--resize", "36", "--crop", "32")


def draw(folder: Path, colour: str, shape: str) -> Path:
    """Draw a captioned picture."""
    picture = Image.new("RGB", (64, 64), "white")
    paint = ImageDraw.Draw(picture)
    (paint.ellipse if shape == "circle" else paint.rectangle)((12, 12, 52, 52), fill=colour)
    path = folder / f"{colour}-{shape}.png"
    picture.save(path)
    path.with_suffix(".txt").write_text(f"a {colour} {shape}\na {shape}\n")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, and all that the first commands make of them."""
    home = tmp_path_factory.mktemp("home")
    pictures = home / "pictures"
    for at in range(3):
        folder = pictures / str(at)
        folder.mkdir(parents=True)
        for colour in COLOURS:
            for shape in SHAPES:
                draw(folder, colour, shape)
    # A picture that is cut short: its header is good, so that only decoding finds out.
    whole = (pictures / "2" / "red-circle.png").read_bytes()
    (pictures / "2" / "red-circle.png").write_bytes(whole[:-60])
    done(hasse("data", "import", "folder", pictures, "--out", home / "data"))
    done(hasse("train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1))
    built = done(
        hasse("index", "build", home / "data", "--model", home / "model", "--out", home / "index")
    )
    assert "red-circle.png" in built.err, "the damaged picture is named"
    return home


def done(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


def info(index: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(done(hasse("index", "info", index, "--json")).out)
    return document


def test_training_leaves_a_checkpoint_that_can_be_evaluated(home: Path) -> None:
    measured = done(
        hasse(
            *("evaluate", home / "data", "--model", home / "model", "--split", ""),
            *("--json", "--out", home / "metrics.json", "--folds", 2),
        )
    )
    document = json.loads(measured.out)
    assert document == json.loads((home / "metrics.json").read_text())
    assert document["images"] == 23
    assert document["captions"] == 46
    assert document["model"] == "model"
    assert 0 < document["rsum"] <= 600


def test_a_block_without_captions_is_a_mistake(home: Path, tmp_path: Path) -> None:
    document = json.loads((home / "data" / "dataset.json").read_text())
    first = [note for note in document["annotations"] if note["image_id"] == 1]
    (tmp_path / "dataset.json").write_text(json.dumps(document | {"annotations": first}))
    measure = ("evaluate", tmp_path, "--model", home / "model", "--split", "")
    done(hasse(*measure))
    assert "one of 2 blocks has no caption" in hasse(*measure, "--folds", 2).error


def test_one_image_is_named_as_one(home: Path, tmp_path: Path) -> None:
    document = json.loads((home / "data" / "dataset.json").read_text())
    one = {"images": document["images"][:1], "annotations": document["annotations"][:1]}
    (tmp_path / "dataset.json").write_text(json.dumps(document | one))
    measure = ("evaluate", tmp_path, "--model", home / "model", "--split", "")
    assert "\n1 image, 1 caption; true by" in done(hasse(*measure)).out
    assert "2 blocks cannot be made of 1 image: use" in hasse(*measure, "--folds", 2).error
    assert "has 1 image and no splits" in hasse("train", tmp_path, "--out", tmp_path / "m").error


def test_the_table_of_an_evaluation_has_both_directions(home: Path) -> None:
    shown = done(hasse("evaluate", home / "data", "--model", home / "model", "--split", ""))
    assert "captions by image" in shown.out
    assert "images by caption" in shown.out
    assert "R@10" in shown.out
    assert "\n23 images, 46 captions; true by " in shown.out
    assert shown.out.endswith("; 95 % intervals over images; model model\n")


def test_the_first_captions_of_each_image_are_measured_in_blocks(home: Path) -> None:
    measure = ("evaluate", home / "data", "--model", home / "model", "--split", "")
    first = (*measure, "--captions-per-image", 1, "--folds", 2)
    shown = done(hasse(*first, "--out", home / "new" / "folder" / "first.json"))
    left_out = "23 images, 23 captions (first 1 of each, 23 left out), mean of 2 blocks; true by"
    assert left_out in shown.out
    document = json.loads((home / "new" / "folder" / "first.json").read_text())
    assert [document[name] for name in ("captions_per_image", "captions_left_out")] == [1, 23]


def test_a_table_says_of_each_direction_what_was_measured(home: Path) -> None:
    measure = ("evaluate", home / "data", "--model", home / "model", "--split", "")
    document = json.loads(done(hasse(*measure, "--json")).out)
    rows = done(hasse(*measure)).out.splitlines()
    for key, label in evaluate.DIRECTIONS:
        (row,) = [row for row in rows if row.startswith(label)]
        shown = [f"{document[key][name]:.1f}" for name, _ in evaluate.COLUMNS]
        assert row.removeprefix(label).split() == shown
    study = document["length_study"]
    ranks = f"{study['image_rank']:.1f}, of the longer caption asked for by the shorter "
    assert any(f"{ranks}{study['caption_rank']:.1f}" in row for row in rows)


def test_what_cannot_be_measured_is_told_before_anything_is_encoded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = ("evaluate", home / "data", "--model", home / "model", "--split", "")
    refused = hasse(*measure, "--folds", 100, "--against", home / "none")
    assert "none holds no model" in refused.error, "before it is told of the blocks"
    by_name = hasse(*measure, "--folds", 100, "--against", "scenes")
    assert "100 blocks cannot be made of" in by_name.error
    alone = hasse(*measure, "--against-features", home / "features")
    assert "there is no --against: name" in alone.error
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib" in hasse(*measure, "--plots", home / "undrawn").error


def test_a_training_can_start_from_a_built_in_model_by_its_name(home: Path, tmp_path: Path) -> None:
    train = ("train", home / "data", "--out", tmp_path, *TINY_TRAINING, "--start", "scenes")
    assert "scenes has another shape (" in hasse(*train).error


def test_what_was_measured_is_shown_also_where_it_cannot_be_written(home: Path) -> None:
    measure = ("evaluate", home / "data", "--model", home / "model", "--split", "")
    shown = hasse(*measure, "--out", home)
    assert shown.status == 1
    assert "is a directory" in shown.error
    assert "captions by image" in shown.out


def test_two_models_are_compared_on_the_same_pictures_and_drawn(home: Path) -> None:
    model = home / "model"
    shown = done(
        hasse(
            *("evaluate", home / "data", "--model", model, "--against", model, "--split", ""),
            *("--plots", home / "plots"),
        )
    )
    assert "difference: rsum +0.0 (+0.0 to +0.0), within chance" in shown.out
    document = json.loads((home / "plots" / "evaluation.json").read_text())
    assert document["against"]["difference"]["rsum"] == 0
    assert document["against"]["difference"]["intervals"]["rsum"] == [0, 0]
    assert document["against"]["intervals"] == document["intervals"]
    assert document["length_study"]["pairs"] == 23
    names = {path.name for path in (home / "plots").glob("*.svg")}
    assert names == {"recall.svg", "ranks.svg", "violations.svg", "points.svg"}


def test_ctrl_c_between_two_figures_says_what_is_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.pipelines.figures._points", interrupted)
    measure = ("evaluate", home / "data", "--model", home / "model", "--split", "")
    stopped = hasse(*measure, "--plots", tmp_path)
    assert stopped.status == 130
    assert f"stopped: {tmp_path} holds some of the figures" in stopped.err
    assert (tmp_path / "recall.svg").is_file()


def test_each_option_of_a_training_is_what_it_says_and_stands_over_a_set_one(
    home: Path, tmp_path: Path
) -> None:
    asked = {
        "score": "cosine",
        "dimension": 12,
        "backbone": "mnasnet0_5",
        "epochs": 2,
        "patience": 1,
        "batch_size": 7,
        "learning_rate": 0.003,
        "margin": 0.15,
        "seed": 4,
    }
    options = [
        word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    out, more = tmp_path / "model", ("--set", "seed=9", "--set", "length=unit")
    done(hasse("train", home / "data", *TINY_TRAINING, *options, *more, "--out", out))
    config = json.loads((out / "metrics.json").read_bytes())["training"]
    described = config | config["model"]
    assert {name: described[name] for name in asked} == asked
    usual = PRESETS["scenes"].config
    kept = ("loss", "entailment", "captions_per_image", "schedule", "weight_decay", "saved_dtype")
    assert {name: config[name] for name in kept} == {name: getattr(usual, name) for name in kept}


def test_a_batch_is_suited_to_the_images_that_are_learned_from_unless_it_is_asked_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def suited(preset: Preset, images: int) -> TrainingConfig:
        counted.append(images)
        return replace(preset.config, batch_size=5)

    monkeypatch.setattr(Preset, "suited", suited)
    learn = ("train", home / "data", *TINY_TRAINING, "--epochs", 1)
    done(hasse(*learn, "--out", tmp_path / "asked"))
    assert counted == []
    usual = [word for word in learn if word not in {"--batch-size", "6"}]
    done(hasse(*usual, "--out", tmp_path / "suited"))
    assert counted == [22], "of 24, two choose the best epoch"
    for name, size in (("asked", 6), ("suited", 5)):
        trained = json.loads((tmp_path / name / "metrics.json").read_bytes())["training"]
        assert trained["batch_size"] == size


def test_a_training_learns_from_one_split_and_chooses_by_another(
    home: Path, tmp_path: Path
) -> None:
    whole = load(home / "data")
    parts = ("mine",) * 9 + ("choice",) * 5 + ("test",) * 10
    images = (replace(one, split=part) for one, part in zip(whole.images, parts, strict=True))
    save(replace(whole, images=tuple(images)), tmp_path / "data")
    out = tmp_path / "model"
    learn = ("train", tmp_path / "data", *TINY_TRAINING, "--epochs", 1, "--out", out)
    told = done(hasse(*learn, "--train-split", "mine", "--val-split", "choice")).err
    found = json.loads((out / "metrics.json").read_bytes())
    assert found["dataset"]["images"] == 9
    assert found["history"][0]["validation"]["images"] == 5
    assert "no splits" not in told
    assert f"next: hasse evaluate {tmp_path / 'data'} --model {out}\n" in told


def test_a_line_for_each_epoch_says_what_was_measured(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    told = done(hasse("train", home / "data", *TINY_TRAINING, "--epochs", 3, "--out", out)).err
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


def test_a_training_goes_on_from_the_weights_of_another_model(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    start = ("--start", home / "model", "--epochs", 1, "--out", out)
    done(hasse("train", home / "data", *TINY_TRAINING, *start))
    begun = json.loads((out / "metrics.json").read_bytes())["start"]
    assert begun == checkpoint.load(home / "model").fingerprint


def test_a_model_is_named_as_its_folder_wherever_the_command_is_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    done(hasse("train", home / "data", *TINY_TRAINING, "--epochs", 1, "--out", "."))
    assert checkpoint.load(tmp_path / "mine").name == "mine"


def test_pictures_without_splits_are_told_which_choose_the_best_epoch(home: Path) -> None:
    again = hasse("train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1)
    assert "no splits: 2 of 24 pictures are not learned from" in done(again).err


def test_the_same_training_again_is_finished_and_another_is_refused(home: Path) -> None:
    before = (home / "model" / "model.safetensors").read_bytes()
    command = ("train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1)
    advised = f"hasse index build {home / 'data'} --model {home / 'model'}"
    assert advised in done(hasse(*command)).err, "it has no split to be measured on"
    assert (home / "model" / "model.safetensors").read_bytes() == before
    refused = hasse(
        "train", home / "data", "--out", home / "model", *TINY_TRAINING, "--epochs", 1, "--seed", 9
    )
    assert refused.status == 1
    assert "another config" in refused.error


def test_another_training_is_refused_before_it_takes_the_place_of_the_folders_pictures(
    home: Path, tmp_path: Path
) -> None:
    network = tmp_path / "network.safetensors"
    save_file(build_backbone("shufflenet_v2_x0_5").network.state_dict(), network)
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
        train = ("train", dataset, "--out", tmp_path / "model", *TINY_TRAINING, "--epochs", 1)
        assert f"another {differing} (" in hasse(*train, *options).error
        assert {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.*")} == before


def test_what_cannot_learn_is_refused_before_the_pictures_are_read(
    home: Path, tmp_path: Path
) -> None:
    for options, said in (
        (("--backbone", "nosuch"), "no classification network 'nosuch'"),
        (("--weights", tmp_path / "none.pth"), "there is no weights file"),
        (("--set", "image_pooling=max"), "has no regions"),
        (("--backbone", "vit_b_16"), "cannot take pictures of 32 x 32 pixels"),
    ):
        train = ("train", home / "data", "--out", tmp_path / "model", *TINY_TRAINING)
        assert said in hasse(*train, *options).error
        assert list((tmp_path / "model").iterdir()) == []


def test_a_preset_learns_in_bfloat16_where_the_device_multiplies_in_it_and_any_where_asked(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = ("train", home / "data", *TINY_TRAINING, "--epochs", 1)
    for has, asked, used in (
        (True, (), "bfloat16"),
        (False, (), "float32"),
        (False, ("--set", "precision=bfloat16"), "bfloat16"),
    ):
        monkeypatch.setattr("models.training.presets.supports_bfloat16", lambda _, has=has: has)
        out = tmp_path / f"{has}-{len(asked)}"
        done(hasse(*learn, *asked, "--out", out))
        assert json.loads((out / "metrics.json").read_bytes())["training"]["precision"] == used


@pytest.mark.parametrize("named", [("--backbone",), ("--set", "backbone")])
def test_a_network_of_ones_own_is_pooled_as_any_network_can_be_unless_asked(
    home: Path, tmp_path: Path, named: tuple[str, ...]
) -> None:
    *before, last = named
    network = (*before, f"{last}=shufflenet_v2_x0_5")
    asked = ("--dimension", 16, "--set", "word_dimension=8", "--set", "resize=36")
    learn = ("train", home / "data", *network, *asked, "--set", "crop=32", "--epochs", 1)
    for preset in ("scenes", "hasse"):
        done(hasse(*learn, "--preset", preset, "--out", tmp_path / preset))
        described = json.loads((tmp_path / preset / "config.json").read_bytes())
        assert described["model"]["image_pooling"] == "average"
    parts = hasse(*learn, "--set", "image_pooling=regions", "--out", tmp_path / "parts")
    assert "has no regions" in parts.error


@pytest.mark.parametrize("kind", ["retrieval", "entailment"])
def test_a_model_that_no_training_here_made_is_not_overwritten(
    home: Path, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(home / "model", tmp_path / "model")
    (tmp_path / "model" / "training.safetensors").unlink()
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"kind": kind}))
    before = {path: path.read_bytes() for path in sorted((tmp_path / "model").glob("*.*"))}
    command = ("train", home / "data", *TINY_TRAINING, "--epochs", 1)
    refused = hasse(*command, "--out", tmp_path / "model")
    assert "holds a model already: choose another --out" in refused.error
    assert {path: path.read_bytes() for path in sorted((tmp_path / "model").glob("*.*"))} == before


def test_the_index_has_all_but_the_damaged_picture(home: Path) -> None:
    found = info(home / "index")
    assert (found["images"], found["captions"]) == (23, 46)
    assert "23" in done(hasse("index", "info", home / "index")).out


@pytest.mark.parametrize(
    "command",
    [
        ("train", "DATA", "--out", "OUT", *TINY_TRAINING, "--epochs", "1"),
        ("evaluate", "DATA", "--model", "MODEL", "--split", "", "--out", "OUT"),
        ("index", "build", "DATA", "--model", "MODEL", "--out", "OUT"),
        ("index", "add", "OUT", "PICTURES", "--model", "MODEL"),
        ("data", "import", "folder", "PICTURES", "--out", "OUT"),
        ("features", "DATA", "--weights", "WEIGHTS", "--out", "OUT", *TINY_FEATURES),
    ],
)
def test_a_good_picture_is_not_left_out_because_too_many_files_are_open(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    pictures = tmp_path / "pictures"
    for folder in ("0", "1"):
        shutil.copytree(home / "pictures" / folder, pictures / folder)
    good, opened = pictures / "1" / "blue-circle.png", Path.open

    def refused(path: Path, *how: Any, **more: Any) -> Any:
        if path.resolve() == good:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *how, **more)

    done(hasse("data", "import", "folder", pictures, "--out", tmp_path / "data"))
    save_file(
        build_backbone("shufflenet_v2_x0_5").network.state_dict(), tmp_path / "network.safetensors"
    )
    places: dict[str, object] = {
        "DATA": tmp_path / "data",
        "OUT": tmp_path / "out",
        "MODEL": home / "model",
        "PICTURES": pictures,
        "WEIGHTS": tmp_path / "network.safetensors",
    }
    words = [places.get(word, word) for word in command]
    monkeypatch.setattr(Path, "open", refused)
    assert f"{good.name}: too many open files; raise the limit" in hasse(*words).error
    monkeypatch.undo()
    again = done(hasse(*words))
    assert good.name not in again.out + again.err


def test_words_and_pictures_find(home: Path) -> None:
    by_words = done(hasse("search", "a red circle", "--index", home / "index", "--json"))
    assert len(json.loads(by_words.out)["hits"]) == 10
    photo = home / "pictures" / "0" / "blue-square.png"
    by_picture = done(hasse("search", photo, "--index", home / "index", "-k", 3, "--json"))
    assert len(json.loads(by_picture.out)["hits"]) == 3


def test_an_index_is_not_built_over_another(home: Path) -> None:
    refused = hasse(
        "index", "build", home / "data", "--model", home / "model", "--out", home / "index"
    )
    assert refused.status == 1
    assert "hasse index add" in refused.error


def test_pictures_come_and_go_and_the_index_stays_whole(home: Path, tmp_path: Path) -> None:
    index = home / "index"
    new = tmp_path / "new"
    new.mkdir()
    photo = draw(new, "orange", "square")
    added = done(hasse("index", "add", index, new))
    assert added.out.startswith("1 picture added")
    again = done(hasse("index", "add", index, photo))
    assert again.out.startswith("0 pictures added; 1 were there already")

    found = done(hasse("search", "a square", "--index", index, "-k", 100, "--json"))
    hits = {hit["file_name"]: hit for hit in json.loads(found.out)["hits"]}
    assert hits[photo.name]["captions"] == ["a orange square", "a square"]
    image_id = hits[photo.name]["image_id"]
    removed = done(hasse("index", "remove", index, image_id, image_id))
    assert removed.out.startswith("1 image removed")
    assert info(index)["images"] == 23

    checked = done(hasse("index", "verify", index, "--json"))
    assert json.loads(checked.out)["findings"] == []
    assert "whole" in done(hasse("index", "verify", index)).out


def test_removing_what_is_not_there_removes_nothing(home: Path) -> None:
    refused = hasse("index", "remove", home / "index", 1, 999_999)
    assert refused.status == 1
    assert "999999" in refused.error
    assert info(home / "index")["images"] == 23


def test_a_model_of_parts_sees_in_pictures_what_it_saw_in_features(
    home: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file

    from models.checkpoints.checkpoint import load
    from models.datasets import load as load_dataset
    from models.encoders.backbone import build_backbone
    from models.images.decoding import open_picture
    from models.images.features import FeatureStore

    torch.manual_seed(0)
    weights = tmp_path / "weights.safetensors"
    save_file(dict(build_backbone("regnet_y_400mf").network.state_dict()), weights)
    network = ("--backbone", "regnet_y_400mf", "--weights", weights, "--resize", 72, "--crop", 64)
    of_parts, of_wholes = tmp_path / "parts", tmp_path / "wholes"
    made = hasse("features", home / "data", *network, "--views", 1, "--out", of_parts)
    assert "23 of 24 pictures" in done(made).out
    done(hasse("features", home / "data", *network, "--no-regions", "--out", of_wholes))
    refused = hasse(
        "features", home / "data", *network, "--regions", "--crops", 10, "--out", tmp_path / "ten"
    )
    assert "regions need one crop" in refused.error

    model = tmp_path / "model"
    small = ("--epochs", 1, "--dimension", 16, "--set", "word_dimension=8")
    done(hasse("train", home / "data", "--features", of_parts, "--out", model, *small))
    assert json.loads((model / "config.json").read_text())["model"]["image_pooling"] == "regions"
    store, seeing = FeatureStore.open(of_parts), load(model).model
    images = [image for image in load_dataset(home / "data").images if image.id in store.image_ids]
    np.testing.assert_allclose(
        seeing.encode_images([open_picture(image.path) for image in images]),
        seeing.encode_features(store.select([image.id for image in images], regions=True)),
        atol=2e-3,
    )
    evaluate = ("evaluate", home / "data", "--model", model, "--split", "")
    assert "23 images" in done(hasse(*evaluate, "--features", of_parts)).out
    assert "'hasse features --regions'" in hasse(*evaluate, "--features", of_wholes).error

    done(hasse("train", home / "data", "--features", of_wholes, "--out", tmp_path / "m", *small))
    assert (
        json.loads((tmp_path / "m" / "config.json").read_text())["model"]["image_pooling"]
        == "average"
    )


def test_features_are_trained_on_with_the_weights_they_were_made_with(
    home: Path, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from models.encoders.backbone import build_backbone

    network = build_backbone("shufflenet_v2_x0_5")
    weights = tmp_path / "weights.safetensors"
    save_file(dict(network.network.state_dict()), weights)
    small = ("--resize", 36, "--crop", 32, "--device", "cpu")
    features = tmp_path / "features"
    made = done(
        hasse(
            *("features", home / "data", "--backbone", "shufflenet_v2_x0_5"),
            *("--weights", weights, "--out", features, *small),
        )
    )
    assert "23 of 24 pictures" in made.out
    options = ("--epochs", 1, "--batch-size", 8, "--dimension", 16, "--set", "word_dimension=8")
    model = tmp_path / "model"
    train = ("train", home / "data", "--features", features, "--out", model, *options)
    weights.rename(tmp_path / "moved.safetensors")
    gone = f"made with {weights}, which is not there any more: name that file with --weights"
    assert gone in hasse(*train).error
    there = ("--weights", tmp_path / "moved.safetensors", "--out", tmp_path / "of-moved")
    done(hasse(*train, *there))
    (tmp_path / "moved.safetensors").rename(weights)
    others = hasse(*train, "--set", "crops=10", "--out", tmp_path / "others")
    assert "crops cannot be '10': the features decide it" in others.error
    told = done(hasse(*train)).err
    assert f"build {home / 'data'} --model {model} --features {features}" in told
    assert "pictures without features, left out: 1 of 24" in told
    measured = done(
        hasse("evaluate", home / "data", "--model", model, "--features", features, "--split", "")
    )
    assert "23 images" in measured.out
    small_model = tmp_path / "small-model"
    kept = ("--set", "saved_dtype=int8", "--out", small_model)
    done(hasse("train", home / "data", "--features", features, *options, *kept))
    of_features = ("--model", small_model, "--features", features, "--split", "")
    assert "23 images" in done(hasse("evaluate", home / "data", *of_features)).out
    index = tmp_path / "index"
    build = ("index", "build", home / "data", "--model", model, "--out", index)
    done(hasse(*build, "--features", features))
    assert info(index)["images"] == 23

    foreign = hasse(
        "evaluate", home / "data", "--model", home / "model", "--features", features, "--split", ""
    )
    assert foreign.status == 1
    assert "not made with the network" in foreign.error

    # Folders are numbered from 1, so that the ids of any two are the same.
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "dataset.json").write_text(
        (home / "data" / "dataset.json").read_text().replace('"file_name":"', '"file_name":"their-')
    )
    for command in (
        ("train", theirs, "--out", tmp_path / "wrong", *options),
        ("evaluate", theirs, "--model", model, "--split", ""),
        ("index", "build", theirs, "--model", model, "--out", tmp_path / "wrong-index"),
    ):
        refused = hasse(*command, "--features", features)
        assert "in which image 1 is not their-0/" in refused.error


@pytest.mark.slow
def test_two_processes_train_one_model_and_only_the_first_speaks(
    home: Path, tmp_path: Path
) -> None:
    train = ("train", home / "data", "--out", tmp_path / "model", *TINY_TRAINING, "--epochs", 2)
    done = torchrun("service.cli", *train)
    assert done.stdout.count("the model model") == 1
    assert done.stderr.count("epoch 2 of 2: loss") == 1
    assert done.stderr.count("red-circle.png") == 1
    assert (tmp_path / "model" / "model.safetensors").is_file()
