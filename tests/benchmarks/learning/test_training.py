"""The plain way that training is compared with is another way to the same numbers."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.learning.training import (
    Plain,
    make,
    memory_of,
    ours,
    plain,
    plain_loss,
    plain_violation,
    score_and_loss,
)
from hasse.models.training.loss import ranking_loss
from tests.tiny import DIMENSION, tiny_model


def test_both_encode_alike() -> None:
    model = tiny_model()
    network = Plain(model)
    tokens, lengths = model.tokens(["a red dog runs", "the cat", "a child in the park"])
    features = torch.rand(3, 1024)
    images, captions = network(features, tokens, lengths)
    assert captions.shape == (3, DIMENSION)
    torch.testing.assert_close(captions, model.caption_points(tokens, lengths))
    torch.testing.assert_close(images, model.feature_points(features))


def test_both_have_one_loss() -> None:
    images, captions = torch.rand(2, 5, 8)
    penalty = plain_violation(images, captions)
    ours = ranking_loss(penalty, torch.arange(5), torch.eye(5, dtype=torch.bool), 0.05)
    torch.testing.assert_close(plain_loss(penalty, 0.05), ours)


def test_both_learn_from_the_same_batches() -> None:
    material = make(200)
    learned, batches = ours(material, "float32", steps=1, device="cpu")
    assert len(batches) == len(learned.losses) == len(learned.clock) == 1
    np.testing.assert_allclose(plain(material, batches, "cpu").losses, learned.losses, rtol=1e-3)


def test_memory_is_that_of_the_work() -> None:
    works = [score_and_loss(64, 64, way, "cpu") for way in ("plain", "ours")]
    works[1]()  # compiles
    theirs, mine = (memory_of(work, "cpu") for work in works)
    # Where the system does not tell, nothing is claimed.
    assert (theirs is None) == (mine is None)
    if theirs is not None and mine is not None:
        assert theirs > 16 > mine
