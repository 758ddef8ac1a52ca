"""`hasse study captioner` from captions to what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hasse.models.checkpoints import checkpoint
from hasse.models.datasets import save
from hasse.service.pipelines.scenes import generate
from hasse.studies.captioner import checkpoint as captioners
from hasse.studies.captioner.writing import Writer
from tests.service.cli.shell import hasse
from tests.service.collection import picture, png
from tests.studies.captioner.prepared import captioned
from tests.studies.captioner.tiny_captioner import make_captioner
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
    out = tmp_path / "captioner"
    train = ("study captioner train", *asked, "--out", out, "--wordnet", wordnet, *QUICK)
    trained = hasse(*train)
    assert trained.status == 0, trained.err
    assert f"{out}: perplexity" in trained.out
    loaded = captioners.load(out, checkpoint.load(model))
    assert loaded.judgement is not None  # since the truth of scenes is known
    assert f"{loaded.metrics['perplexity']:.3f} in validation" in trained.out

    evaluate = ("study captioner evaluate", *asked, "--captioner", out)
    found = json.loads(hasse(*evaluate, "--draws", 20, "--json").out)
    assert (found["images"], found["draws"]) == (4, 20)
    for name in ("order", "paper", "random likely text"):
        row = found[name]
        assert row["true_main"] <= row["true"] <= 100
        assert 1 <= row["mean_rank_of_picture"] <= 4
        assert len(row["bleu"]) == 4
    shown = hasse(*evaluate, "--most", 2)
    assert "BLEU-4" in shown.out
    assert "2 pictures, 300 draws each" in shown.out

    again = hasse(*train)
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


def test_captions_for_a_picture_are_those_of_the_captioner(tmp_path: Path) -> None:
    encoder = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    make_captioner(encoder, tmp_path / "captioner")
    (tmp_path / "photo.png").write_bytes(png(3))
    named = (tmp_path / "photo.png", "--model", encoder.folder)
    described = hasse(
        "study captioner describe", *named, "--captioner", tmp_path / "captioner", "-n", 2
    )
    assert described.status == 0, described.err
    (point,) = encoder.model.encode_images([picture(3)])
    texts = [
        caption.text for caption in Writer.load(encoder, tmp_path / "captioner").describe(point)
    ]
    assert len(texts) > 2
    assert all(text in described.out for text in texts[:2])
    assert texts[2] not in described.out

    none = hasse("study captioner describe", *named, "--captioner", tmp_path / "none")
    assert none.status == 1
    assert "holds no model of captioning" in none.err
