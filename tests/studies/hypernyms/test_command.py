"""`hasse study hypernyms` from WordNet's file to an answer."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from hasse.studies.hypernyms import command as commands
from tests.service.cli.shell import hasse
from tests.studies.chosen import options
from tests.studies.hypernyms.dictionary import SMALL, tree, write
from tests.tiny import seal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("wordnet"), tree())


@pytest.fixture(scope="module")
def model(wordnet: Path) -> Path:
    out = wordnet.parent / "model"
    trained = hasse(
        *("study hypernyms train", wordnet, "--out", out, "--held-out", 60, *options("epochs=60"))
    )
    assert trained.status == 0, trained.err
    assert "% right in validation" in trained.out
    return out


def test_model_is_measured_beside_transitivity(model: Path) -> None:
    shown = hasse("study hypernyms evaluate", model)
    assert "transitive closure" in shown.out
    assert "120 pairs" in shown.out
    found = json.loads(hasse("study hypernyms evaluate", model, "--json").out)
    assert found["protocol"] == "clean"
    assert found["transitive_closure"]["of_false"] == 100
    assert found["model"]["pairs"] == 120
    assert found["oracle"] == 100


def test_word_is_answered_with_what_is_above_it(model: Path) -> None:
    found = json.loads(hasse("study hypernyms query", "w0123", "--model", model, "--json").out)
    names = [one["name"] for one in found["ancestors"]]
    assert found["concept"]["gloss"].startswith("what a w0123 is")
    assert "w" in names
    assert {"violation", "known", "key", "words"} <= found["ancestors"][0].keys()
    shown = hasse("study hypernyms query", "w0123", "--model", model, "-k", 3)
    assert shown.out.startswith("w0123: what a w0123 is\n")
    assert len(shown.out.splitlines()) <= 5


def test_word_with_nothing_above_it_is_told_so(model: Path, tmp_path: Path) -> None:
    strict = shutil.copytree(model, tmp_path / "model")
    config = json.loads((strict / "config.json").read_text())
    (strict / "config.json").write_text(json.dumps(config | {"threshold": 0}))
    seal(strict)
    ask = ("study hypernyms query", "w0", "--model", strict)
    assert hasse(*ask).out == "w0: what a w0 is\nthe model puts nothing above it\n"
    assert json.loads(hasse(*ask, "--json").out)["ancestors"] == []


def test_word_that_wordnet_does_not_have_is_a_mistake(model: Path) -> None:
    wrong = hasse("study hypernyms query", "unicorn", "--model", model)
    assert "no 'unicorn'" in wrong.error
    beyond = hasse("study hypernyms query", "w", "--sense", 2, "-m", model)
    assert "'w' has no meaning 2 here: the last --sense is 1" in beyond.error


def test_plot_is_a_picture_of_every_word(tmp_path: Path) -> None:
    wordnet = write(tmp_path / "wordnet")
    out = tmp_path / "plots" / "animals.svg"
    drawn = hasse(
        "study hypernyms plot", wordnet, "--words", "entity,animal, dog,cat", "--out", out
    )
    assert drawn.status == 0, drawn.err
    assert "3 of 3 direct hypernyms in order, 0 spurious" in drawn.out
    assert all(f">{word}<" in out.read_text() for word in ("entity", "animal", "dog", "cat"))
    assert "no 'elf'" in hasse("study hypernyms plot", wordnet, "--words", "elf", "-o", out).error


def test_bad_files_of_wordnet_are_one_clear_line(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "model")
    assert "apt-get install wordnet-base" in hasse("study hypernyms train", tmp_path, *out).error
    write(tmp_path, dict(SMALL) | {"animal": ("object", "poodle")})
    assert "circle" in hasse("study hypernyms train", tmp_path, *out).error
    write(tmp_path)
    assert "too few to withhold" in hasse("study hypernyms train", tmp_path, *out).error
    assert "no model of hypernyms" in hasse("study hypernyms evaluate", tmp_path / "model").error


def test_ctrl_c_says_that_nothing_is_kept(
    wordnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(label: str) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(commands, "progress", interrupted)
    stopped = hasse("study hypernyms train", wordnet, "-o", tmp_path / "m", "--held-out", 60)
    assert stopped.status == 130
    assert "nothing is kept" in stopped.err
