"""From captions to a captioner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import DatasetError
from hasse.studies.captioner.building import Prepared
from hasse.studies.captioner.corpus import join_by_picture, sentences
from hasse.studies.captioner.language_model import LanguageModelConfig
from hasse.studies.captioner.structure import structure
from hasse.studies.captioner.training import CaptionerTraining, perplexity
from hasse.studies.wordnet.lexicon import Lexicon
from tests.studies.captioner.prepared import SIZES, TRAINING, captioned, prepare
from tests.tiny import tiny_checkpoint
from tests.wordnet import write_wordnet


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint.load(tiny_checkpoint(tmp_path_factory.mktemp("tiny")))


def test_structure_tells_verbs_nouns_and_words_about_clothes(tmp_path: Path) -> None:
    lexicon = Lexicon.read(write_wordnet(tmp_path))
    words, tags = structure("The dogs run, wearing blue, in and out", lexicon)
    assert words == ["the", "dogs", "run", "wearing", "blue", "in", "and", "out"]
    expected = "determiner nouns verb attire adjective preposition conjunction preposition"
    assert tags == expected.split()
    assert structure("狗在公园里", lexicon) == ([], [])


@pytest.mark.parametrize(
    "sizes", [SIZES, replace(SIZES, structure=False), replace(SIZES, content=False)]
)
def test_training_lowers_the_perplexity_with_and_without_tags_and_content(
    encoder: Checkpoint, tmp_path: Path, sizes: LanguageModelConfig
) -> None:
    prepared = prepare(encoder, tmp_path)
    run = prepared.training(replace(TRAINING, model=sizes), encoder)
    before = perplexity(run.model, prepared.validation)
    run.run()
    assert perplexity(run.best, prepared.validation) == pytest.approx(-run.notes["best"])
    assert -run.notes["best"] < before / 2


def test_same_seed_trains_the_same_captioner(encoder: Checkpoint, tmp_path: Path) -> None:
    runs = [prepare(encoder, tmp_path).training(TRAINING, encoder) for _ in range(2)]
    for run in runs:
        run.run()
    first, second = (run.best.state_dict() for run in runs)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_joint_point_of_a_picture_has_all_that_its_captions_have(
    encoder: Checkpoint, tmp_path: Path
) -> None:
    train = prepare(encoder, tmp_path).train
    joint = join_by_picture(train, "order")
    expected = torch.maximum(train.points[0], train.points[1])
    assert torch.allclose(joint[0], expected / expected.norm())
    assert len(joint) == len(train) / 2


@pytest.mark.parametrize(
    ("texts", "reason"), [(("狗在公园里",), "no captions in English"), (("q w e r",), "no word")]
)
def test_captions_that_cannot_be_learned_are_refused(
    encoder: Checkpoint, tmp_path: Path, texts: tuple[str, ...], reason: str
) -> None:
    lexicon = Lexicon.read(write_wordnet(tmp_path))

    def read() -> Prepared:
        found = sentences(captioned(texts=texts), lexicon)
        return Prepared.of(found, found, encoder, 1)

    with pytest.raises(DatasetError, match=reason):
        read()


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"learning_rate": 0.0}, {"drop": 1.0}, {"joined": -0.1}, {"seed": -1}]
)
def test_training_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CaptionerTraining(**wrong)  # type: ignore[arg-type]
