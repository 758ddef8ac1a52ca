"""The models that come with Hasse keep their promises on what they have never seen."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hasse.lab.evaluation.ranking import average_precisions, best_ranks
from hasse.lab.kernels.violations import penalties
from hasse.models.calibration import Calibration
from hasse.models.checkpoints.checkpoint import Checkpoint, load
from hasse.models.checkpoints.model_folder import WEIGHTS
from hasse.models.checkpoints.named_models import PRETRAINED, pretrained
from hasse.scenes import (
    Scene,
    SceneTable,
    Statement,
    draw,
    sample_statements,
    scene_and_captions,
)

COUNT = 200  # pictures of the test split


@dataclass(frozen=True, slots=True)
class Gallery:
    """Test scenes, drawn and encoded: `images` is (COUNT, N)."""

    checkpoint: Checkpoint
    table: SceneTable
    images: torch.Tensor
    own: list[Statement]

    def ask(self, statements: list[Statement]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the penalty and the truth of each answerable statement for each image."""
        true = np.stack([self.table.holds(statement) for statement in statements])
        asked = np.flatnonzero(true.any(1) & ~true.all(1))
        texts = [statements[row].text for row in asked]
        captions = torch.from_numpy(self.checkpoint.model.encode_captions(texts))
        return penalties("order", self.images, captions).T.numpy(), true[asked]


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    checkpoint = load(pretrained("scenes"))
    scenes: list[Scene] = []
    own: list[Statement] = []
    for row in range(COUNT):
        scene, captions = scene_and_captions(0, "test", row)
        scenes.append(scene)
        own.extend(captions)
    points = checkpoint.model.encode_images([draw(scene, 192) for scene in scenes])
    return Gallery(checkpoint, SceneTable(scenes), torch.from_numpy(points), own)


def test_a_caption_of_one_concept_finds_all_that_it_is_true_of(gallery: Gallery) -> None:
    statements = sample_statements(random.Random(0), 100, concepts=1)
    assert average_precisions(*gallery.ask(statements)).mean() > 0.95


def test_a_caption_of_two_concepts_finds_all_that_it_is_true_of(gallery: Gallery) -> None:
    statements = sample_statements(random.Random(0), 300, concepts=2)
    assert average_precisions(*gallery.ask(statements)).mean() > 0.9


def test_scenes_calls_true_captions_likely_and_false_ones_unlikely(gallery: Gallery) -> None:
    calibration = gallery.checkpoint.calibration.image
    assert isinstance(calibration, Calibration)
    penalty, true = gallery.ask(gallery.own)
    likely = calibration.probability(penalty)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (likely >= low) & (likely < high)
        assert low - 0.1 < true[inside].mean() < high + 0.1
    called = penalty < calibration.threshold
    precision, recall = true[called].mean(), called[true].mean()
    assert min(precision, recall) > 0.8
    assert abs(precision - recall) < 0.1


def test_a_full_caption_finds_its_picture_among_ten(gallery: Gallery) -> None:
    full = [statement for statement in gallery.own if statement.full]
    assert np.mean(best_ranks(*gallery.ask(full))[0] <= 10) > 0.95


def test_the_first_caption_of_a_picture_is_true(gallery: Gallery) -> None:
    penalty, true = gallery.ask(gallery.own)
    asking = true.any(0)
    assert np.mean(best_ranks(penalty.T[asking], true.T[asking])[0] <= 1) > 0.95


def test_scenes_tells_which_caption_follows_from_which(gallery: Gallery) -> None:
    said = list({statement.text: statement for statement in gallery.own}.values())
    premises = SceneTable(said)
    true = np.stack([premises.holds(statement) for statement in said], axis=1)
    texts = [statement.text for statement in said]
    points = torch.from_numpy(gallery.checkpoint.model.encode_captions(texts))
    penalty = penalties("order", points, points).numpy()
    others = ~np.eye(len(said), dtype=np.bool_)
    assert average_precisions(penalty[others][None], true[others][None])[0] > 0.95
    calibration = gallery.checkpoint.calibration.caption
    assert isinstance(calibration, Calibration)
    called = penalty[others] < calibration.threshold
    assert true[others][called].mean() > 0.9
    assert called[true[others]].mean() > 0.9


def test_scenes_knows_every_word_of_its_captions(gallery: Gallery) -> None:
    unknown = {
        word
        for s in gallery.own
        for word in gallery.checkpoint.model.vocabulary.unknown_words(s.text)
    }
    assert unknown == set()


def test_built_in_models_are_small_enough_to_ship() -> None:
    sizes = {path.parent.name: path.stat().st_size for path in PRETRAINED.glob(f"*/{WEIGHTS}")}
    assert sizes["scenes"] < 15e6
    every = pretrained("photographs").rglob("*.*")
    own = [path.stat().st_size for path in every if "captioner" not in path.parts]
    assert sum(own) < 15e6, "all of its files"
    assert sum(sizes.values()) < 60e6


def test_photographs_reads_a_possessive_in_both_ways_that_captions_write_it() -> None:
    model = load(pretrained("photographs"), with_pictures=False).model
    assert model.vocabulary.unknown_words("the dog's tail") == []
    one, other, cat = model.encode_captions(
        ["the dog's tail", "the dog 's tail", "the cat 's tail"]
    )
    assert one @ other > 0.9 * np.linalg.norm(one) * np.linalg.norm(other)
    assert one @ other > one @ cat


def test_photographs_knows_words_that_few_captions_have() -> None:
    model = load(pretrained("photographs"), with_pictures=False).model
    asked = ("zebra", "accordion", "lighthouse", "espresso", "giraffe", "cathedral", "broccoli")
    assert model.vocabulary.unknown_words(" ".join(asked)) == []
    texts = model.encode_captions(["a lorry", "a truck", "a violin"])
    lorry, violin = penalties("order", *map(torch.from_numpy, (texts[:1], texts[1:])))[0]
    assert lorry < violin, "what means nearly the same is nearer"
