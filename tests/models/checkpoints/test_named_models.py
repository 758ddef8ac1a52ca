from __future__ import annotations

from pathlib import Path

import pytest

from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.models.datasets import Dataset, Image
from tests.tiny import tiny_checkpoint


def test_an_unknown_built_in_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(CheckpointError, match="no built-in model is called 'nothing'"):
        named_models.pretrained("nothing")


def test_pretrained_without_built_in_models_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_models, "PRETRAINED", tmp_path)
    with pytest.raises(CheckpointError, match="there are: none"):
        named_models.pretrained("scenes")


def test_the_built_in_model_that_suits_is_found_and_any_by_name_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scenes", "photographs"):
        tiny_checkpoint(tmp_path / "built-in" / name)
    monkeypatch.setattr(named_models, "PRETRAINED", tmp_path / "built-in")
    monkeypatch.chdir(tmp_path)
    plain = Dataset("plain", (Image(1, "a.jpg", tmp_path / "a.jpg"),))
    drawn = Dataset("drawn", (Image(1, "a.jpg", tmp_path / "a.jpg", meaning={"things": []}),))
    assert named_models.find_or_default(None, plain) == tmp_path / "built-in" / "photographs"
    assert named_models.find_or_default(None, drawn) == tmp_path / "built-in" / "scenes"
    assert named_models.find(Path("scenes")) == tmp_path / "built-in" / "scenes"
    assert named_models.find(Path("data/scenes")) == Path("data/scenes")
    assert named_models.find(Path("nothing")) == Path("nothing")
    Path("scenes").mkdir()
    assert named_models.find(Path("scenes")) == tmp_path / "built-in" / "scenes", "it has no model"
    tiny_checkpoint(tmp_path / "scenes")
    assert named_models.find(Path("scenes")) == Path("scenes"), "its own folder comes first"


def test_built_in_checkpoint_is_found_by_name_and_fingerprint_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_in = tiny_checkpoint(tmp_path / "built-in" / "tiny")
    own = tiny_checkpoint(tmp_path / "own", seed=1)
    monkeypatch.setattr(named_models, "PRETRAINED", tmp_path / "built-in")
    there, other = (checkpoint.load(folder).fingerprint for folder in (built_in, own))
    assert named_models.find_recorded("tiny", there, "/another/clone/tiny") == built_in
    assert named_models.find_recorded("tiny", other, str(own)) == own
    with pytest.raises(CheckpointError, match="does not say where its model 'tiny' is"):
        named_models.find_recorded("tiny", other, "")
