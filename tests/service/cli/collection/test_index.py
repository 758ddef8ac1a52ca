"""What commands say of a library and of its index, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import DiskFullError, HasseIndexError, IndexLockedError
from hasse.index.store import Index
from hasse.index.types import ImageRow, ModelIdentity
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.cli.collection import additions
from tests.service.cli.shell import Outcome, hasse
from tests.service.collection import make_collection, png
from tests.tiny import tiny_checkpoint


def done(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


@pytest.mark.torch
def test_only_the_pictures_of_a_split_are_indexed(tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    (tmp_path / "pictures").mkdir()
    for at in range(3):
        (tmp_path / "pictures" / f"{at}.png").write_bytes(png(at))
    rows = ("file_name,caption,split", "0.png,a dog,train", "1.png,a cat,train")
    (tmp_path / "c.csv").write_text("\n".join(rows))
    table = ("--captions", tmp_path / "c.csv", "--out", tmp_path / "data")
    done(hasse("lab data", "import", "folder", tmp_path / "pictures", *table))
    build = ("lab index build", tmp_path / "data", "--model", model)
    for at, (split, count) in enumerate(((("--split", "train"), 2), (("--split", ""), 1), ((), 3))):
        said = done(hasse(*build, *split, "--library", tmp_path / str(at))).out
        assert f": {count} image{'s' * (count > 1)}, " in said


def test_merging_says_what_became_of_segments_and_rows(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    compact = ("lab index compact", "--library", index)
    assert done(hasse(*compact)).out == "nothing to merge: 2 segments, generation 1\n"
    done(hasse("remove", 1003, "--library", index))
    dropped = "2 segments became 2, 3 removed rows dropped; generation 4\n"
    assert done(hasse(*compact)).out == dropped


def test_verify_tells_what_is_wrong_and_gives_status_1(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    whole = done(hasse("status", "--verify", "--library", index))
    assert "whole; 2 segments, 36 rows, " in whole.out
    points = next((index / "segments").rglob("ids.npy"))
    content = bytearray(points.read_bytes())
    content[-1] ^= 1
    points.write_bytes(content)
    wrong = hasse("status", "--verify", "--library", index)
    assert wrong.status == 1
    assert points.name in wrong.out
    assert "1 thing wrong; " in wrong.out
    as_json = hasse("status", "--verify", "--library", index, "--json")
    assert as_json.status == 1
    assert json.loads(as_json.out)["verification"]["ok"] is False


@pytest.mark.torch
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (IndexLockedError("a service is at it"), ""),
        (DiskFullError("no room"), "the additions are there, but small segments could not be"),
    ],
)
def test_additions_stay_where_segments_cannot_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HasseIndexError, told: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    index = make_collection(tmp_path)
    (tmp_path / "new.png").write_bytes(png(50))
    monkeypatch.setattr(Index, "compact", refuse)
    added = done(hasse("add", tmp_path / "new.png", "--library", index))
    assert added.out == "1 picture added\n"
    assert told in added.err
    assert ("segments" in added.err) == bool(told)


def test_first_add_adds_to_the_index_that_another_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    (tmp_path / "new.png").write_bytes(png(50))
    create = additions.create_index

    def second(folder: Path, checkpoint: Checkpoint) -> Index:
        create(folder, checkpoint).close()
        return create(folder, checkpoint)

    monkeypatch.setattr(additions, "create_index", second)
    added = done(hasse("add", tmp_path / "new.png", "--library", tmp_path / "i", "--model", model))
    assert added.out == "1 picture added\n"


def test_index_that_does_not_know_its_model_asks_for_it(tmp_path: Path) -> None:
    nameless = ModelIdentity("tiny", "0" * 64, 4, "order")
    with Index.create(tmp_path / "index", nameless, threads=1) as index:
        index.add([ImageRow(1, "1.jpg", "1.jpg")], np.ones((1, 4), np.float32))
    (tmp_path / "new.png").write_bytes(png(50))
    refused = hasse("add", tmp_path / "new.png", "--library", tmp_path / "index")
    assert "does not say where its model 'tiny' is: name it with --model" in refused.error


def test_index_is_encoded_anew_by_another_model_and_searched_by_it(tmp_path: Path) -> None:
    index = make_collection(tmp_path)
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    search = ("search", "a dog", "--library", index, "--model", other)
    refused = hasse(*search)
    assert refused.status == 1
    assert "'hasse use MODEL'" in refused.error
    said = done(hasse("use", other, "--library", index))
    assert said.out == "12 pictures read by 'tiny'\n"
    assert "until it is restarted" in said.err
    done(hasse(*search))
    again = done(hasse("use", other, "--library", index))
    assert again.out == "the library uses the model 'tiny' already\n"
    assert "whole; " in done(hasse("status", "--verify", "--library", index)).out
