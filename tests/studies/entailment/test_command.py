"""`hasse study entailment` from a corpus to what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.model_folder import CheckpointError
from hasse.models.files import lock_folder
from hasse.studies.entailment import command as commands
from hasse.studies.entailment.checkpoint import load
from hasse.studies.entailment.embedding import SentenceConfig
from hasse.studies.entailment.training import EntailmentTraining
from tests.models.test_files import room_for
from tests.service.cli.shell import hasse
from tests.service.cli.test_interruption import ctrl_c_at
from tests.studies.chosen import options
from tests.studies.entailment.corpora import sick, snli
from tests.tiny import tiny_checkpoint

pytestmark = pytest.mark.slow

SMALL = options("dimension=24", "word_dimension=12", "word_range=1", "batch_size=8")


@pytest.mark.parametrize("kind", ["snli", "sick"])
def test_train_and_evaluate_commands_work_together(kind: str, tmp_path: Path) -> None:
    corpus = snli(tmp_path / "snli_1.0") if kind == "snli" else sick(tmp_path / "SICK.txt")
    out = tmp_path / "model"
    trained = hasse("study entailment train", corpus, "--out", out, *SMALL, *options("epochs=3"))
    assert trained.status == 0, trained.err
    assert "epoch 3 of 3" in trained.err
    assert ("3 without a label" if kind == "snli" else "measured on TRIAL") in trained.err
    found = json.loads(hasse("study entailment evaluate", corpus, "--model", out, "--json").out)
    assert found["comparison"] == "order"
    assert found["model"]["low"] <= found["model"]["accuracy"] <= found["model"]["high"]
    assert found["model"]["pairs"] == found["majority"]["pairs"]
    shown = hasse("study entailment evaluate", corpus, "-m", out)
    assert "majority class" in shown.out


def test_model_of_sentences_says_how_it_was_trained_and_what_it_reached(tmp_path: Path) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    asked = options("pooling=max", "length=unit", "seed=3", "margin=0.5", "epochs=2")
    trained = hasse(
        *(
            "study entailment train",
            corpus,
            "--out",
            out,
            *SMALL,
            *asked,
            *options("learning_rate=0.02"),
        )
    )
    loaded = load(out)
    shape = SentenceConfig("order", 24, 12, 1, pooling="max", length="unit")
    assert loaded.training == EntailmentTraining(shape, 2, 8, 0.02, 0.5, seed=3)
    reached = loaded.metrics["validation_accuracy"]
    assert f"{out}: {reached:.2f} % right in validation" in trained.out
    assert loaded.metrics["start"] is None
    # The three parts of this corpus are the same pairs.
    found = json.loads(hasse("study entailment evaluate", corpus, "--model", out, "--json").out)
    assert found["threshold"] == loaded.threshold
    assert found["model"]["accuracy"] == pytest.approx(reached)


def test_training_that_no_epoch_made_better_says_so(tmp_path: Path) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    train = ("study entailment train", corpus, *SMALL, *options("epochs=1"))
    trained = hasse(*train, "--out", out, *options("learning_rate=1e-30"))
    assert "% right in validation, as it began: no epoch was better" in trained.out
    as_it_is = hasse(*train, "--out", tmp_path / "start", *options("epochs=0"))
    assert "as it began" not in as_it_is.out


def test_training_stopped_before_its_first_epoch_is_through_says_what_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    ctrl_c_at(1, commands.train, monkeypatch)
    stopped = hasse("study entailment train", corpus, *SMALL, "--out", out)
    assert stopped.status == 130
    assert f"{out} holds the model as it began" in stopped.err


def test_second_ctrl_c_says_what_is_left_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    ctrl_c_at(1, commands.train, monkeypatch, times=2)
    stopped = hasse("study entailment train", corpus, *SMALL, "--out", out)
    assert stopped.status == 130
    assert f"{out} holds the model as it began" in stopped.err


def test_retrieval_checkpoint_can_start_it(tmp_path: Path) -> None:
    corpus, start = snli(tmp_path / "snli"), tiny_checkpoint(tmp_path / "start")
    command = ("study entailment train", corpus, "--start", start, "--out", tmp_path / "model")
    trained = hasse(*command, *options("epochs=0"))
    assert trained.status == 0, trained.err
    assert load(tmp_path / "model").metrics["start"] == "tiny"
    assert "cannot start" in hasse(*command, *options("comparison=symmetric")).error


def test_model_of_another_command_is_refused_as_what_it_is(tmp_path: Path) -> None:
    corpus, captions = snli(tmp_path / "snli"), tiny_checkpoint(tmp_path / "captions")
    refused = hasse("study entailment evaluate", corpus, "--model", captions)
    assert "holds a model of retrieval, not of entailment" in refused.error
    sentences = tmp_path / "sentences"
    train = ("study entailment train", corpus, "--start", captions, *options("epochs=0"))
    assert hasse(*train, "--out", sentences).status == 0
    with pytest.raises(CheckpointError, match="a model of entailment, not of retrieval"):
        checkpoint.load(sentences)


def test_mistakes_are_one_clear_line(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "model")
    assert "SNLI's folder" in hasse("study entailment train", tmp_path / "x", *out).error
    corpus = snli(tmp_path / "snli")
    assert "above 0" in hasse("study entailment train", corpus, *out, *options("margin=0")).error
    assert hasse("study entailment train", corpus, *out, *options("seed=-1")).status == 1
    assert (
        "seed is a whole"
        in hasse("study entailment train", corpus, *out, *options(f"seed={2**63}")).error
    )
    for many in (65_537, 10**20):
        refused = hasse("study entailment train", corpus, *out, *options(f"dimension={many}"))
        assert "dimension and word_dimension are at most" in refused.error
    for wide in ("nan", "inf", "1e39"):
        refused = hasse("study entailment train", corpus, *out, *options(f"word_range={wide}"))
        assert "word_range is above 0 and at most" in refused.error
    wrong = hasse("study entailment evaluate", corpus, "--model", tmp_path)
    assert "no model of entailment" in wrong.error


def test_model_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    command = ("study entailment train", corpus, "--out", out, *SMALL, *options("epochs=1"))
    assert hasse(*command).status == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert (
        "holds a model already: choose another --out" in hasse(*command, *options("seed=1")).error
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("written", range(3))
def test_model_that_was_not_written_whole_is_trained_by_the_same_command(
    tmp_path: Path, written: int
) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    command = ("study entailment train", corpus, "--out", out, *SMALL, *options("epochs=1"))
    with room_for(written):
        assert "free some space and run the same command again" in hasse(*command).error
    assert len([path for path in out.iterdir() if path.suffix != ".partial"]) == written
    again = hasse(*command)
    assert again.status == 0, again.err


def test_two_trainings_do_not_mix(tmp_path: Path) -> None:
    corpus, out = snli(tmp_path / "snli"), tmp_path / "model"
    with lock_folder(out):
        refused = hasse("study entailment train", corpus, "--out", out, *SMALL)
    assert "another process is writing" in refused.error
    assert list(out.iterdir()) == []
