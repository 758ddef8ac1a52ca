"""The plain way that training is compared with is another way to the same numbers."""

from __future__ import annotations

import torch

from benchmarks.training import Plain, memory_of, plain_loss, plain_violation, score_and_loss
from models.loss import ranking_loss
from tests.tiny import DIMENSION, tiny_model


def test_both_encode_alike() -> None:
    model = tiny_model()
    plain = Plain(model)
    tokens, lengths = model.tokens(["a red dog runs", "the cat", "a child in the park"])
    features = torch.rand(3, 1024)
    images, captions = plain(features, tokens, lengths)
    assert captions.shape == (3, DIMENSION)
    torch.testing.assert_close(captions, model.caption_points(tokens, lengths))
    torch.testing.assert_close(images, model.feature_points(features))


def test_both_have_one_loss() -> None:
    images, captions = torch.rand(2, 5, 8)
    penalty = plain_violation(images, captions)
    ours = ranking_loss(penalty, torch.arange(5), torch.eye(5, dtype=torch.bool), 0.05)
    torch.testing.assert_close(plain_loss(penalty, 0.05), ours)


def test_memory_is_that_of_the_work() -> None:
    plain, ours = (
        memory_of(score_and_loss(64, 64, way, "cpu"), "cpu") for way in ("plain", "ours")
    )
    # Where the system does not tell, nothing is claimed.
    assert (plain is None) == (ours is None)
    if plain is not None and ours is not None:
        assert plain > 16 > ours
