"""`hasse lab model`: make a pretrained model, search with it, calibrate and remove it by name."""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from hasse.lab.checkpoints import learned_model
from hasse.lab.encoders import registry
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.images.decoding import open_picture
from hasse.models.published.reading import read
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.cli.shapes import COLOURS, SHAPES, done, draw
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.tiny import TINY, tiny_checkpoint
from tests.tiny_clip import NAME, tiny_clip
from tests.tiny_towers import immich_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which models are kept."""
    monkeypatch.setenv("HASSE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"


def pictures(folder: Path) -> Path:
    folder.mkdir()
    for colour in COLOURS:
        for shape in SHAPES:
            draw(folder, colour, shape)
    return folder


def make(tmp_path: Path) -> None:
    """Make a model "mine" of open_clip's encoders."""
    done(hasse("lab model", "make", "mine", "--from", NAME, "--weights", tmp_path / "clip"))


def make_tiny(tmp_path: Path, name: str = "mine", clean: str = "lower") -> None:
    """Make a model of published graphs, which takes no time."""
    source = immich_folder(tmp_path / name, text={"tokenizer_kwargs": {"clean": clean}})
    named_models.make(name, read(source, "immich-app/tiny"))


def test_pretrained_model_is_searched_and_served_as_any_other(tmp_path: Path) -> None:
    theirs = tiny_clip(tmp_path / "clip")
    make(tmp_path)
    index, folder = tmp_path / "index", pictures(tmp_path / "pictures")
    done(hasse("add", folder, "--library", index, "--model", "mine"))

    asked = "a red circle"
    shown = ("search", asked, "--evidence", "shows")
    found = json.loads(done(hasse(*shown, "--library", index, "-n", 3, "--json")).out)
    tokens_of = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'clip'}")
    with torch.inference_mode():
        text = theirs.encode_text(tokens_of([asked]), normalize=True).numpy()
    model = checkpoint.load(named_models.find(Path("mine"))).model
    files = sorted(folder.glob("*.png"))
    smallest = model.preprocessing.resize
    images = model.encode_images([open_picture(file, at_least=smallest) for file in files])
    best = np.argsort(1 - images @ text[0], kind="stable")[:3]
    assert [hit["file_name"] for hit in found["hits"]] == [files[at].name for at in best]
    violations = [hit["violation"] for hit in found["hits"]]
    np.testing.assert_allclose(violations, (1 - images @ text[0])[best], atol=1e-5)
    assert found["certified"]
    assert [hit["probability"] for hit in found["hits"]] == [None] * 3

    with Client(create_app(Settings(library=index, device="cpu"))) as client:
        body = {"caption": asked, "k": 3, "evidence": "shows"}
        answer = client.post("/search/images", json=body).json()
        assert [hit["file_name"] for hit in answer["hits"]] == [files[at].name for at in best]
        with files[0].open("rb") as picture:
            captions = client.post("/search/captions", files={"image": picture}, data={"k": 2})
        assert len(captions.json()["hits"]) == 2
        assert client.get("/", params={"caption": asked}).status_code == 200
        refused = client.post("/search/images", json=body | {"caption": "σκύλος"})
        assert refused.status_code == 422
        assert "σκύλος" in refused.json()["detail"]
        part = client.post("/search/images", json={"caption": "red σκύλος"}).json()
        assert part["unknown_words"] == ["σκύλος"]


def test_model_is_calibrated_once_there_are_captions(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    (folder := tmp_path / "pictures").mkdir()
    for name in ("a", "b", "c"):
        pictures(folder / name)
    done(hasse("lab data", "import", "folder", folder, "--out", tmp_path / "data"))
    index = tmp_path / "index"
    done(hasse("lab index build", tmp_path / "data", "--model", "mine", "--library", index))
    before = learned_model.load(named_models.find(Path("mine"))).fingerprint
    told = done(hasse("lab model", "calibrate", "mine", tmp_path / "data"))
    assert told.out.startswith("pictures: 8 pairs, ")  # of two pictures with two captions each
    assert "measuring the 2 pictures of 24 that 'hasse lab train' does not learn from" in told.err
    assert learned_model.load(named_models.find(Path("mine"))).fingerprint == before
    found = json.loads(done(hasse("search", "a red circle", "--library", index, "--json")).out)
    assert all(0 <= hit["probability"] <= 1 for hit in found["hits"])


def test_calibrate_model_that_agrees_with_the_order_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "pictures").mkdir()
    for name in ("a", "b", "c"):
        pictures(folder / name)
    done(hasse("lab data", "import", "folder", folder, "--out", tmp_path / "data"))
    source = named_models.pretrained("photographs")
    copy = shutil.copytree(source, tmp_path / "copy")
    refused = hasse("lab model", "calibrate", copy, tmp_path / "data")
    assert "probabilities that agree with the order" in refused.error
    kept = ("calibration.json", "SHA256SUMS")
    assert filecmp.cmpfiles(copy, source, kept, shallow=False)[0] == list(kept)


def test_models_are_listed_shown_and_removed(tmp_path: Path, home: Path) -> None:
    make_tiny(tmp_path)
    listed = json.loads(done(hasse("lab model", "list", "--json")).out)
    assert [each["name"] for each in listed] == ["photographs", "scenes", "mine"]
    assert "built in" in done(hasse("lab model", "list")).out
    shown = json.loads(done(hasse("lab model", "show", "mine", "--json")).out)
    assert shown["encoder"] == "immich-app/tiny"
    assert (shown["score"], shown["dimension"], shown["calibrated"]) == ("cosine", 16, False)
    assert "'hasse lab model calibrate' measures it" in done(hasse("lab model", "show", "mine")).out
    trained = tiny_checkpoint(tmp_path / "trained")
    shown = json.loads(done(hasse("lab model", "show", trained, "--json")).out)
    assert shown["encoder"] == TINY

    assert (
        "there is a model 'mine'"
        in hasse("lab model", "make", "mine", "--from", NAME, "--weights", tmp_path / "clip").error
    )
    assert str(home / "mine") in done(hasse("lab model", "remove", "mine")).out
    assert list(home.iterdir()) == []
    assert (
        "no model 'mine' was made here; there is none" in hasse("lab model", "remove", "mine").error
    )
    for command in (("remove", "scenes"), ("calibrate", "scenes", tmp_path)):
        assert "comes with Hasse and stays" in hasse("lab model", *command).error
    assert "a model of 'hasse lab model list'" in hasse("lab model", "show", "mine").error


def test_weights_are_downloaded_where_that_is_asked_for(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_clip(tmp_path / "clip")
    asked: list[str] = []

    def download(name: str, *_: object) -> Path:
        asked.append(name)
        return tmp_path / "clip"

    monkeypatch.setattr(registry, "download_weights", download)
    assert "--weights PATH" in hasse("lab model", "make", "mine", "--from", NAME).error
    refused = hasse("lab model", "make", "scenes", "--from", NAME, "--download-weights")
    assert "is the name of a built-in model" in refused.error
    assert asked == []
    done(hasse("lab model", "make", "mine", "--from", NAME, "--download-weights"))
    assert asked == [NAME]
    assert (home / "mine" / "config.json").is_file()


@pytest.mark.parametrize("name", ["a/b", "..", "", "a b"])
def test_name_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    tiny_clip(tmp_path / "clip")
    refused = hasse("lab model", "make", name, "--from", NAME, "--weights", tmp_path / "clip")
    assert "cannot be the name of a model" in refused.error


def test_index_of_one_model_is_not_searched_or_added_to_with_another(tmp_path: Path) -> None:
    make_tiny(tmp_path, "one")
    make_tiny(tmp_path, "two", "canonicalize")
    index = tmp_path / "index"
    folder = pictures(tmp_path / "pictures")
    done(hasse("add", folder, "--library", index, "--model", "one"))
    for asked in (("search", "a circle", "--library", index), ("add", folder, "--library", index)):
        refused = hasse(*asked, "--model", "two")
        assert refused.status == 1
        assert "hasse use" in refused.error
    done(hasse("lab model", "remove", "one"))
    assert "hasse use MODEL" in hasse("search", "a circle", "--library", index).error
    done(hasse("use", "two", "--library", index))
    done(hasse("search", "a circle", "--library", index))


def test_models_are_listed_without_open_clip_and_made_by_no_other_library(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["open_clip"] = None
from tests.service.cli.shell import hasse
print(hasse("lab model", "list").out)
print(hasse("lab model", "make", "mine", "--from", "{NAME}", "--weights", "{tmp_path}").error)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "photographs" in told.stdout, told.stderr
    assert 'pip install -e ".[open-clip]"' in told.stdout
