"""A person's way through Hasse on their own pictures, with nothing but commands."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file

from hasse.lab.encoders.registry import build_backbone
from tests.service.cli.shapes import TINY_FEATURES, done, draw, info
from tests.service.cli.shell import TINY_TRAINING, hasse
from tests.tiny import TINY


def test_index_has_all_but_the_damaged_picture(home: Path) -> None:
    found = info(home / "index")
    assert (found["images"], found["captions"]) == (23, 46)
    assert "23" in done(hasse("lab index info", "--library", home / "index")).out


@pytest.mark.parametrize(
    "command",
    [
        ("lab train", "DATA", "--out", "OUT", *TINY_TRAINING, "--epochs", "1"),
        ("lab evaluate", "DATA", "--model", "MODEL", "--split", "", "--out", "OUT"),
        ("lab index build", "DATA", "--model", "MODEL", "--library", "OUT"),
        ("add", "PICTURES", "--library", "OUT", "--model", "MODEL"),
        ("lab data", "import", "folder", "PICTURES", "--out", "OUT"),
        ("lab features", "DATA", "--weights", "WEIGHTS", "--out", "OUT", *TINY_FEATURES),
    ],
)
def test_good_picture_is_not_left_out_because_too_many_files_are_open(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    pictures = tmp_path / "pictures"
    for folder in ("0", "1"):
        shutil.copytree(home / "pictures" / folder, pictures / folder)
    good, opened = pictures / "1" / "blue-circle.png", os.open

    def refused(path: Any, *how: Any, **more: Any) -> int:
        if Path(path).resolve() == good:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *how, **more)

    done(hasse("lab data", "import", "folder", pictures, "--out", tmp_path / "data"))
    save_file(
        build_backbone(TINY).network.state_dict(),
        tmp_path / "network.safetensors",
    )
    places: dict[str, object] = {
        "DATA": tmp_path / "data",
        "OUT": tmp_path / "out",
        "MODEL": home / "model",
        "PICTURES": pictures,
        "WEIGHTS": tmp_path / "network.safetensors",
    }
    words = [places.get(word, word) for word in command]
    monkeypatch.setattr(os, "open", refused)
    assert f"{good.name}: too many open files; raise the limit" in hasse(*words).error
    monkeypatch.undo()
    again = done(hasse(*words))
    assert good.name not in again.out + again.err


def test_words_and_pictures_find(home: Path) -> None:
    by_words = done(hasse("search", "a red circle", "--library", home / "index", "--json"))
    assert len(json.loads(by_words.out)["hits"]) == 10
    photo = home / "pictures" / "0" / "blue-square.png"
    by_picture = done(hasse("like", photo, "--library", home / "index", "-n", 3, "--json"))
    assert len(json.loads(by_picture.out)["hits"]) == 3


def test_index_is_not_built_over_another(home: Path) -> None:
    refused = hasse(
        "lab index build", home / "data", "--model", home / "model", "--library", home / "index"
    )
    assert refused.status == 1
    assert "hasse add" in refused.error


def test_pictures_come_and_go_and_the_index_stays_whole(home: Path, tmp_path: Path) -> None:
    index = home / "index"
    new = tmp_path / "new"
    new.mkdir()
    photo = draw(new, "orange", "square")
    added = done(hasse("add", new, "--library", index))
    assert added.out.startswith("1 picture added")
    again = done(hasse("add", photo, "--library", index))
    assert again.out.startswith("0 pictures added; 1 were there already")

    found = done(hasse("search", "a square", "--library", index, "-n", 100, "--json"))
    hits = {hit["file_name"]: hit for hit in json.loads(found.out)["hits"]}
    assert hits[photo.name]["captions"] == ["a orange square", "a square"]
    image_id = hits[photo.name]["image_id"]
    removed = done(hasse("remove", image_id, image_id, "--library", index))
    assert removed.out.startswith("1 picture removed")
    assert info(index)["images"] == 23

    checked = done(hasse("status", "--verify", "--library", index, "--json"))
    assert json.loads(checked.out)["verification"]["findings"] == []
    assert "whole" in done(hasse("status", "--verify", "--library", index)).out


def test_removing_what_is_not_there_removes_nothing(home: Path) -> None:
    refused = hasse("remove", 1, 999_999, "--library", home / "index")
    assert refused.status == 1
    assert "999999" in refused.error
    assert info(home / "index")["images"] == 23


@pytest.mark.slow
def test_model_of_parts_sees_in_pictures_what_it_saw_in_features(
    home: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file

    from hasse.lab.encoders.registry import build_backbone
    from hasse.lab.features.feature_store import FeatureStore
    from hasse.models.checkpoints.checkpoint import load
    from hasse.models.datasets import load as load_dataset
    from hasse.models.images.decoding import open_picture

    torch.manual_seed(0)
    weights = tmp_path / "weights.safetensors"
    save_file(dict(build_backbone("torchvision/regnet_y_400mf").network.state_dict()), weights)
    network = (
        "--backbone",
        "torchvision/regnet_y_400mf",
        "--weights",
        weights,
        "--resize",
        72,
        "--crop",
        64,
    )
    of_parts, of_wholes = tmp_path / "parts", tmp_path / "wholes"
    made = hasse("lab features", home / "data", *network, "--views", 1, "--out", of_parts)
    assert "23 of 24 pictures" in done(made).out
    done(hasse("lab features", home / "data", *network, "--no-regions", "--out", of_wholes))
    refused = hasse(
        "lab features",
        home / "data",
        *network,
        "--regions",
        "--crops",
        10,
        "--out",
        tmp_path / "ten",
    )
    assert "regions need one crop" in refused.error

    model = tmp_path / "model"
    small = ("--epochs", 1, "--set", "dimension=16", "--set", "word_dimension=8")
    done(hasse("lab train", home / "data", "--features", of_parts, "--out", model, *small))
    assert json.loads((model / "config.json").read_text())["model"]["image_pooling"] == "regions"
    store, seeing = FeatureStore.open(of_parts), load(model).model
    images = [image for image in load_dataset(home / "data").images if image.id in store.image_ids]
    np.testing.assert_allclose(
        seeing.encode_images([open_picture(image.path) for image in images]),
        seeing.encode_features(store.select([image.id for image in images], regions=True)),
        atol=2e-3,
    )
    evaluate = ("lab evaluate", home / "data", "--model", model, "--split", "")
    assert "23 images" in done(hasse(*evaluate, "--features", of_parts)).out
    assert "'hasse lab features --regions'" in hasse(*evaluate, "--features", of_wholes).error

    done(
        hasse("lab train", home / "data", "--features", of_wholes, "--out", tmp_path / "m", *small)
    )
    assert (
        json.loads((tmp_path / "m" / "config.json").read_text())["model"]["image_pooling"]
        == "average"
    )


@pytest.mark.slow
def test_features_are_trained_on_with_the_weights_they_were_made_with(
    home: Path, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from hasse.lab.encoders.registry import build_backbone

    network = build_backbone(TINY)
    weights = tmp_path / "weights.safetensors"
    save_file(dict(network.network.state_dict()), weights)
    small = ("--resize", 36, "--crop", 32, "--device", "cpu")
    features = tmp_path / "features"
    made = done(
        hasse(
            *("lab features", home / "data", "--backbone", TINY),
            *("--weights", weights, "--out", features, *small),
        )
    )
    assert "23 of 24 pictures" in made.out
    options = (
        "--epochs",
        1,
        "--batch-size",
        8,
        "--set",
        "dimension=16",
        "--set",
        "word_dimension=8",
    )
    model = tmp_path / "model"
    train = ("lab train", home / "data", "--features", features, "--out", model, *options)
    weights.rename(tmp_path / "moved.safetensors")
    gone = f"made with {weights}, which is not there any more: name that file with --weights"
    assert gone in hasse(*train).error
    there = ("--weights", tmp_path / "moved.safetensors", "--out", tmp_path / "of-moved")
    done(hasse(*train, *there))
    (tmp_path / "moved.safetensors").rename(weights)
    others = hasse(*train, "--set", "crops=10", "--out", tmp_path / "others")
    assert "crops cannot be '10': the features decide it" in others.error
    told = done(hasse(*train)).err
    assert f"evaluate {home / 'data'} --model {model} --features {features}" in told
    assert "pictures without features, left out: 1 of 24" in told
    measured = done(
        hasse(
            "lab evaluate", home / "data", "--model", model, "--features", features, "--split", ""
        )
    )
    assert "23 images" in measured.out
    small_model = tmp_path / "small-model"
    kept = ("--set", "saved_dtype=int8", "--out", small_model)
    done(hasse("lab train", home / "data", "--features", features, *options, *kept))
    of_features = ("--model", small_model, "--features", features, "--split", "")
    assert "23 images" in done(hasse("lab evaluate", home / "data", *of_features)).out
    index = tmp_path / "index"
    build = ("lab index build", home / "data", "--model", model, "--library", index)
    done(hasse(*build, "--features", features))
    assert info(index)["images"] == 23

    foreign = hasse(
        "lab evaluate",
        home / "data",
        "--model",
        home / "model",
        "--features",
        features,
        "--split",
        "",
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
        ("lab train", theirs, "--out", tmp_path / "wrong", *options),
        ("lab evaluate", theirs, "--model", model, "--split", ""),
        ("lab index build", theirs, "--model", model, "--library", tmp_path / "wrong-index"),
    ):
        refused = hasse(*command, "--features", features)
        assert "in which image 1 is not their-0/" in refused.error
