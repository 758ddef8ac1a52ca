"""`hasse study scenes`: phrases for a model, and the truth of its captions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hasse.models.captioning.phrases import load
from hasse.models.checkpoints import checkpoint, named_models
from hasse.studies.scenes.usual_phrases import USUAL
from tests.service.cli.shell import hasse

pytestmark = pytest.mark.slow


def test_phrases_of_a_model_describe_scenes_that_it_has_not_seen(tmp_path: Path) -> None:
    folder = tmp_path / "scenes"
    shutil.copytree(
        named_models.pretrained("scenes"), folder, ignore=shutil.ignore_patterns("captioner")
    )
    made = hasse("study scenes phrases", "--model", folder, "--pictures", 100)
    assert made.status == 0, made.err
    assert f"{folder / 'captioner'}: limits by 100 scenes" in made.out
    assert load(checkpoint.load(folder)).phrases == USUAL
    measured = hasse("study scenes evaluate", "--model", folder, "--pictures", 20, "--json")
    figures = json.loads(measured.out)
    assert figures["scenes"] == 20
    assert figures["described"] > 90
    assert 80 < figures["true"] <= 100
    assert 40 < figures["main_thing"] <= figures["true"]
