"""`hasse study captioner` from captions to what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hasse.lab.checkpoints import learned_model
from hasse.models.captioning import checkpoint as captioners
from hasse.models.datasets import save
from hasse.service.pipelines.scenes import generate
from tests.service.cli.shell import hasse
from tests.studies.captioner.prepared import captioned
from tests.studies.chosen import options
from tests.tiny import tiny_checkpoint
from tests.wordnet import write_wordnet

pytestmark = pytest.mark.slow

QUICK = options("epochs=1", "min_word_count=1")


def test_one_command_trains_and_one_measures_on_scenes(tmp_path: Path) -> None:
    generate(tmp_path / "scenes", train=20, val=6, test=4, workers=1)
    wordnet = write_wordnet(tmp_path / "wordnet")
    model = tiny_checkpoint(tmp_path / "model")
    asked = (tmp_path / "scenes", "--model", model)
    trained = hasse("study captioner train", *asked, "--wordnet", wordnet, *QUICK)
    assert trained.status == 0, trained.err
    assert f"{model / 'captioner'}: perplexity" in trained.out
    loaded = captioners.load(model / "captioner", learned_model.load(model))
    assert loaded.judgement is not None  # since the truth of scenes is known
    assert f"{loaded.metrics['perplexity']:.3f} in validation" in trained.out

    found = json.loads(hasse("study captioner evaluate", *asked, "--draws", 20, "--json").out)
    assert (found["images"], found["draws"]) == (4, 20)
    for name in ("order", "paper", "random likely text"):
        row = found[name]
        assert row["true_main"] <= row["true"] <= 100
        assert 1 <= row["mean_rank_of_picture"] <= 4
        assert len(row["bleu"]) == 4
    shown = hasse("study captioner evaluate", *asked, "--most", 2)
    assert "BLEU-4" in shown.out
    assert "2 pictures, 300 draws each" in shown.out

    again = hasse("study captioner train", *asked, "--wordnet", wordnet)
    assert again.status == 1
    assert "holds a model already" in again.err


def test_dataset_without_captions_is_refused(tmp_path: Path) -> None:
    save(captioned(texts=("",)), tmp_path / "data")
    asked = ("--model", tiny_checkpoint(tmp_path / "model"), "--out", tmp_path / "out")
    wordnet = write_wordnet(tmp_path / "wordnet")
    refused = hasse("study captioner train", tmp_path / "data", *asked, "--wordnet", wordnet)
    assert refused.status == 1
    assert "no captions in English" in refused.err
    assert not (tmp_path / "out" / "config.json").exists()


def test_training_without_pictures_on_the_disk_and_without_splits_needs_none(
    tmp_path: Path,
) -> None:
    dataset = captioned()
    whole = tuple(replace(image, split="") for image in dataset.images)
    save(replace(dataset, images=whole), tmp_path / "data")
    asked = ("--model", tiny_checkpoint(tmp_path / "model"), "--out", tmp_path / "out")
    wordnet = write_wordnet(tmp_path / "wordnet")
    assert not hasse(
        "study captioner train", tmp_path / "data", *asked, "--wordnet", wordnet, *QUICK
    ).status
    assert (tmp_path / "out" / "config.json").exists()
