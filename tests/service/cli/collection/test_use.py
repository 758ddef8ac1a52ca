"""`hasse use`: a library changes to a model of a folder or of the hub, by one command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hasse.models.checkpoints import checkpoint
from hasse.models.images.decoding import open_picture
from hasse.models.published.names import PUBLISHED
from hasse.service.cli.app import app
from tests.fake_hub import FakeHub, serving
from tests.service.cli.shapes import COLOURS, SHAPES, done, draw
from tests.service.cli.shell import hasse
from tests.tiny_towers import (
    END,
    PAD,
    START,
    WORDS,
    immich_folder,
    picture_graph,
    picture_point,
    save_graph,
    text_point,
    transformers_folder,
)

A, RED, CIRCLE = (WORDS.index(word) for word in ("a", "red", "circle"))
QUERY, TOKENS = "a red circle", [START, A, RED, CIRCLE, END, PAD]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which models are made; without text recognition."""
    monkeypatch.setenv("HASSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HASSE_OCR", "0")
    monkeypatch.setenv("HASSE_ENCODER_RUNTIME", "onnxruntime")
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "home" / "models"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Give a library of pictures of shapes, encoded by a model "first" of seven features."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for colour in COLOURS:
        for shape in SHAPES:
            draw(pictures, colour, shape)
    first = immich_folder(tmp_path / "first", text={"tokenizer_kwargs": {"clean": "lower"}})
    assert hasse("use", first, "--library", tmp_path / "library").status == 1
    done(hasse("add", pictures, "--library", tmp_path / "library", "--model", "first"))
    return tmp_path / "library"


def best_pictures(pictures: Path, model: Path) -> list[str]:
    """Return names of pictures in the order of the query, by numpy."""
    preprocessing = checkpoint.load(model).model.preprocessing
    files = sorted(pictures.glob("*.png"))
    pixels = (preprocessing.apply(open_picture(file, at_least=8)) for file in files)
    points = np.stack([picture_point(each[0]) for each in pixels])
    return [files[at].name for at in np.argsort(-points @ text_point(TOKENS), kind="stable")]


def found(library: Path) -> list[str]:
    asked = hasse("search", QUERY, "--library", library, "-n", 5, "--evidence", "shows", "--json")
    return [hit["file_name"] for hit in json.loads(done(asked).out)["hits"]]


@pytest.mark.parametrize("write", [immich_folder, transformers_folder])
def test_use_of_a_folder_brings_the_library_over(
    tmp_path: Path, home: Path, library: Path, write: Callable[[Path], Path]
) -> None:
    source = write(tmp_path / "My model, 2")
    told = done(hasse("use", source, "--library", library))
    assert f"made the model 'My-model-2' in {home / 'My-model-2'}" in told.err
    assert f"{len(COLOURS) * len(SHAPES)} pictures read by 'My-model-2'" in told.out
    assert found(library) == best_pictures(tmp_path / "pictures", home / "My-model-2")[:5]
    again = done(hasse("use", source, "--library", library))
    assert "uses the model 'My-model-2' already" in again.out
    assert "made" not in again.err
    done(hasse("use", "first", "--library", library))
    done(hasse("use", "My-model-2", "--library", library))


def test_use_of_a_folder_whose_name_is_taken_by_another_model_is_refused(
    tmp_path: Path, library: Path
) -> None:
    source = tmp_path / "first"
    config = json.loads((source / "config.json").read_bytes())
    (source / "config.json").write_text(json.dumps(config | {"more": 1}))
    refused = hasse("use", source, "--library", library)
    assert "there is a model 'first' in" in refused.error
    assert "'hasse lab model remove first'" in refused.error


def test_use_without_a_library_says_how_to_make_one(tmp_path: Path) -> None:
    refused = hasse("use", immich_folder(tmp_path / "mine"), "--library", tmp_path / "library")
    assert f"there is no library in {tmp_path / 'library'} yet" in refused.error
    assert "'hasse add FOLDER --model mine' makes one" in refused.error


def test_use_of_a_folder_that_cannot_be_used_leaves_the_library(
    tmp_path: Path, home: Path, library: Path
) -> None:
    before = found(library)
    source = immich_folder(tmp_path / "other")
    (source / "textual" / "model.onnx").unlink()
    assert "but no textual/model.onnx" in hasse("use", source, "--library", library).error
    source = immich_folder(tmp_path / "named")
    save_graph(picture_graph("x"), source / "visual" / "model.onnx")
    assert "takes x, where Hasse gives" in hasse("use", source, "--library", library).error
    nothing = hasse("use", tmp_path / "nothing", "--library", library)
    assert "or one of clip, clip-multilingual, siglip" in nothing.error
    assert sorted(path.name for path in home.iterdir()) == ["first"]
    assert found(library) == before


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Run a hub with the model that "clip" names."""
    source = immich_folder(tmp_path / "published")
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    with serving(FakeHub(files), PUBLISHED["clip"].repository) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        yield running


def test_use_of_a_published_name_asks_then_downloads_and_changes(
    tmp_path: Path, home: Path, library: Path, hub: FakeHub
) -> None:
    command = ["use", "clip", "--library", str(library)]
    size = sum(map(len, hub.files.values())) / 1e6
    question = f"{PUBLISHED['clip'].repository}: {size:,.0f} MB, texts in English, licence MIT"

    refused = CliRunner().invoke(app, command, input="n\n")
    assert question in refused.output
    assert "nothing was downloaded" in refused.output
    silent = CliRunner().invoke(app, command, input="")
    assert "give --yes where nobody can answer" in silent.output
    assert (refused.exit_code, silent.exit_code) == (1, 1)
    assert hub.requested == []
    assert not (home / "clip").exists()

    agreed = CliRunner().invoke(app, command, input="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert {name for name, _ in hub.requested} == set(hub.files)
    assert found(library) == best_pictures(tmp_path / "pictures", home / "clip")[:5]
    assert not list((tmp_path / "home" / "downloads").rglob("*.onnx")), "nothing is kept twice"
    hub.requested.clear()
    done(hasse("use", "first", "--library", library))
    done(hasse("use", "clip", "--library", library))
    assert hub.requested == [], "what was made is used again, without the hub"


def test_add_to_a_new_library_asks_for_a_published_model_too(
    tmp_path: Path, home: Path, hub: FakeHub
) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    draw(pictures, "red", "circle")
    command = ["add", str(pictures), "--model", "clip", "--library", str(tmp_path / "library")]
    assert CliRunner().invoke(app, command, input="n\n").exit_code == 1
    assert hub.requested == []
    agreed = CliRunner().invoke(app, command, input="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert (home / "clip" / "config.json").is_file()
    assert found(tmp_path / "library") == ["red-circle.png"]


def test_use_that_is_killed_while_it_downloads_goes_on(
    tmp_path: Path, home: Path, library: Path, hub: FakeHub
) -> None:
    hub.cut["visual/model.onnx"] = 1_000
    failed = hasse("use", "clip", "--yes", "--library", library)
    assert "repeat the command" in failed.error
    assert not (home / "clip").exists()
    hub.cut.clear()
    hub.requested.clear()
    done(hasse("use", "clip", "--yes", "--library", library))
    assert [name for name, _ in hub.requested] == [
        "visual/model.onnx",
        "visual/preprocess_cfg.json",
    ]
    assert found(library) == best_pictures(tmp_path / "pictures", home / "clip")[:5]


def test_use_of_altered_or_missing_files_leaves_the_library(
    library: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found(library)
    hub.altered.add("textual/model.onnx")
    altered = hasse("use", "clip", "--yes", "--library", library)
    assert "is not what the hub states" in altered.error
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    unreachable = hasse("use", "clip", "--yes", "--library", library)
    assert "check the network and repeat the command" in unreachable.error
    assert found(library) == before


def test_use_that_is_stopped_while_it_encodes_goes_on(
    tmp_path: Path, library: Path, home: Path
) -> None:
    source = immich_folder(tmp_path / "second")
    program = (sys.executable, "-m", "hasse", "use", str(source), "--library", str(library))
    with subprocess.Popen(program, env=os.environ) as running:
        while not (home / "second" / "config.json").exists() and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    done(hasse("use", "second", "--library", library))
    assert found(library) == best_pictures(tmp_path / "pictures", home / "second")[:5]


def test_published_names_are_those_of_the_help_and_the_documentation() -> None:
    # Lines of the help end anywhere, also after a dash.
    shown = "".join(done(hasse("use", "--help")).out.replace("│", "").split())
    page = Path(__file__).parents[4] / "docs" / "encoders.md"
    text = page.read_text(encoding="utf-8")
    for model in PUBLISHED.values():
        assert model.name in shown
        assert f"| `{model.name}` | [{model.repository}]" in text
