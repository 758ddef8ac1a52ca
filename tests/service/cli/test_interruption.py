"""Ctrl-C and kills: what was finished stays, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.commands import features as features_command
from hasse.lab.commands import train as train_command
from hasse.lab.features.extraction import extract
from hasse.lab.features.source import with_features
from hasse.models.checkpoints import checkpoint
from hasse.models.datasets import Image, load
from hasse.models.encoders.names import LITE
from hasse.models.files import lock_folder
from hasse.service.cli.collection import additions
from hasse.service.writing import indexing
from hasse.service.writing.image_source import ImageSource
from tests.service.cli.shell import TINY_TRAINING, hasse
from tests.service.collection import picture
from tests.tiny import TINY, tiny_checkpoint

PICTURES = 24
DAMAGED = (3, 9)


class Kill(BaseException):
    """Ends a build where it is: nothing catches it, as nothing would a SIGKILL."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captioned pictures, two of them cut short."""
    home = tmp_path_factory.mktemp("interrupted")
    pictures = home / "pictures"
    pictures.mkdir()
    for at in range(PICTURES):
        path = pictures / f"{at:02}.png"
        picture(at).save(path)
        if at in DAMAGED:
            path.write_bytes(path.read_bytes()[:120])
        path.with_suffix(".txt").write_text(f"a dog {at}\na cat\n")
    assert hasse("lab data", "import", "folder", pictures, "--out", home / "data").status == 0
    return home / "data"


def ctrl_c_at(count: int, command: Any, monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Send this process SIGINT when the command reports progress for the count-th time."""

    @contextmanager
    def progress(label: str, *, silent: bool = False) -> Iterator[Callable[..., None]]:
        calls = 0

        def report(done: int, total: int, remark: str = "") -> None:
            nonlocal calls
            calls += 1
            if calls == count:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

        yield report

    monkeypatch.setattr(sys.modules[command.__module__], "progress", progress)


def test_build_goes_on_where_ctrl_c_stopped_it(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    command = ("lab index build", dataset, "--model", model, "--batch-size", 4, "--device", "cpu")
    assert hasse(*command, "--library", tmp_path / "whole").status == 0

    with monkeypatch.context() as patch:
        ctrl_c_at(2, additions.build_index, patch)
        stopped = hasse(*command, "--library", tmp_path / "parts")
    assert stopped.status == 130
    assert "the same command goes on" in stopped.err
    assert stopped.err.count("stopped: ") == 1
    assert (
        "hasse lab index build" in hasse("search", "a dog", "--library", tmp_path / "parts").error
    )

    encoded: list[int] = []
    original = ImageSource.encode

    def counting(self: ImageSource, model: Any, images: Any) -> Any:
        encoded.append(len(images))
        return original(self, model, images)

    monkeypatch.setattr(ImageSource, "encode", counting)
    resumed = hasse(*command, "--library", tmp_path / "parts")
    assert resumed.status == 0, resumed.err
    assert encoded[0] < PICTURES, "what was finished is not encoded again"
    whole, parts = (
        hasse("search", "a dog", "-n", 100, "--json", "--library", tmp_path / name).out
        for name in ("whole", "parts")
    )
    assert json.loads(parts)["hits"] == json.loads(whole)["hits"]
    assert len(json.loads(parts)["hits"]) == PICTURES - len(DAMAGED)


@pytest.mark.parametrize("block", range(1, 5))
def test_build_killed_after_any_block_ends_like_one_that_was_not(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    collection = load(dataset)
    source = ImageSource(batch_size=4, block_seconds=0.0)
    reports = 0

    def kill(done: int, total: int) -> None:
        nonlocal reports
        reports += 1
        if reports > block:
            raise Kill

    with pytest.raises(Kill):
        indexing.build(collection, loaded, tmp_path / "index", source, kill)
    with indexing.build(collection, loaded, tmp_path / "index", source) as built:
        found = built.info()
        images = built.catalog.images([image.id for image in collection.images])
        captions = built.catalog.captions([caption.id for caption in collection.captions])
    left_out = {image.id for image in collection.images if image.id - 1 in DAMAGED}
    assert found.images == PICTURES - len(DAMAGED)
    assert set(images) == {image.id for image in collection.images} - left_out
    assert {row.image_id for row in captions.values()} == set(images)
    assert found.captions == len(captions) == 2 * len(images)


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, split="new"),
        lambda one: replace(
            one,
            id=one.id + 100,
            captions=tuple(replace(said, image_id=one.id + 100) for said in one.captions),
        ),
        lambda one: replace(
            one, captions=tuple(replace(said, id=said.id + 100) for said in one.captions)
        ),
        lambda one: replace(one, file_name=f"new-{one.file_name}"),
        lambda one: replace(
            one, path=one.path.parent / ".." / one.path.parent.name / one.path.name
        ),
        lambda one: replace(
            one, captions=tuple(replace(said, text="a child") for said in one.captions)
        ),
    ],
)
def test_build_of_something_else_does_not_go_on_with_what_is_there(
    dataset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Image], Image],
) -> None:
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    former = load(dataset)

    def kill(done: int, _total: int) -> None:
        if done > PICTURES:
            raise Kill

    with pytest.raises(Kill):
        indexing.build(former, loaded, tmp_path / "index", ImageSource(), kill, 16)
    later = replace(former, images=tuple(map(change, former.images)))
    with indexing.build(later, loaded, tmp_path / "index", ImageSource()) as built:
        rows = built.catalog.images([one.id for one in later.images])
        captions = built.catalog.captions([one.id for one in later.captions])
    there = [one for one in later.images if int(one.path.stem) not in DAMAGED]
    assert {(row.split, row.file_name, row.path) for row in rows.values()} == {
        (one.split, one.file_name, str(one.path)) for one in there
    }
    assert {row.text for row in captions.values()} == {
        said.text for one in there for said in one.captions
    }


def test_build_from_features_does_not_go_on_with_what_was_read_from_pictures(
    dataset: Path, tmp_path: Path
) -> None:
    loaded = learned_model.load(tiny_checkpoint(tmp_path / "model"))
    model, collection, features = order_embedding_of(loaded), load(dataset), tmp_path / "features"
    extract(collection, model.images.backbone, model.preprocessing, features)

    def kill(done: int, _total: int) -> None:
        if done:
            raise Kill

    with pytest.raises(Kill):
        indexing.build(collection, loaded, tmp_path / "index", ImageSource(), kill)
    source = with_features(ImageSource(), features)
    with indexing.build(collection, loaded, tmp_path / "index", source) as built:
        rows = built.catalog.images([one.id for one in collection.images])
    assert len(rows) == PICTURES - len(DAMAGED)
    assert {row.sha256 for row in rows.values()} == {""}, "no picture was looked at"


def test_features_go_on_where_ctrl_c_stopped_them(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file

    from hasse.lab.encoders.registry import build_backbone

    weights = tmp_path / "weights.safetensors"
    save_file(dict(build_backbone(TINY).network.state_dict()), weights)
    command = (
        *("lab features", dataset, "--backbone", TINY, "--weights", weights),
        *("--resize", 36, "--crop", 32, "--batch-size", 4, "--device", "cpu"),
        *("--out", tmp_path / "features"),
    )
    with monkeypatch.context() as patch:
        ctrl_c_at(2, features_command.features, patch)
        stopped = hasse(*command)
    assert stopped.status == 130
    assert "8 of 24 pictures are done" in stopped.err
    resumed = hasse(*command)
    assert resumed.status == 0, resumed.err
    assert "22 of 24 pictures" in resumed.out


@pytest.mark.slow
def test_training_goes_on_where_ctrl_c_stopped_it(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("lab train", dataset, *TINY_TRAINING, "--epochs", 2)
    whole = hasse(*command, "--out", tmp_path / "a" / "model")
    assert whole.status == 0, whole.err
    with monkeypatch.context() as patch:
        ctrl_c_at(6, train_command.train, patch)
        stopped = hasse(*command, "--out", tmp_path / "b" / "model")
    assert stopped.status == 130
    assert "goes on from there" in stopped.err
    assert hasse(*command, "--out", tmp_path / "b" / "model").status == 0
    prints = {checkpoint.load(tmp_path / name / "model").fingerprint for name in ("a", "b")}
    assert len(prints) == 1, "stopping changes nothing of the result"


def test_training_that_is_stopped_at_once_names_a_best_epoch_only_where_there_is_one(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("lab train", dataset, *TINY_TRAINING, "--epochs", 1, "--out", tmp_path)
    with monkeypatch.context() as patch:
        ctrl_c_at(1, train_command.train, patch)  # pictures are read, and nothing is learned yet
        stopped = hasse(*command)
    assert stopped.status == 130
    assert "goes on from there; no epoch was finished so far" in stopped.err
    assert hasse(*command).status == 0

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hasse.lab.training.trainer.RetrievalTraining.train", interrupted)
    assert f"goes on from there; {tmp_path} holds the best epoch so far" in hasse(*command).err


def test_two_trainings_do_not_mix(dataset: Path, tmp_path: Path) -> None:
    command = ("lab train", dataset, *TINY_TRAINING, "--epochs", 1, "--out", tmp_path)
    with lock_folder(tmp_path):
        refused = hasse(*command)
    assert refused.status == 1
    assert f"another process is writing to {tmp_path}: wait for it" in refused.error
    assert list(tmp_path.iterdir()) == []
    assert hasse(*command).status == 0


def test_ctrl_c_on_a_real_process_ends_it_with_one_line_and_130(
    dataset: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "hasse", "lab", "train", str(dataset), *TINY_TRAINING),
            *("--backbone", LITE, "--out", str(tmp_path / "model")),
            *("--epochs", "100000", "--set", "patience=100000"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    with process:
        try:
            lines = [process.stderr.readline()]
            while not lines[-1].startswith("epoch 1 "):
                assert lines[-1], "".join(lines)
                lines.append(process.stderr.readline())
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert rest.count("stopped: ") == 1
    assert checkpoint.load(tmp_path / "model").name == "model"
