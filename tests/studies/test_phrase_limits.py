"""Limits of phrases."""

from __future__ import annotations

import numpy as np
import pytest

from hasse.models.checkpoints import checkpoint
from hasse.models.score import penalties_between
from hasse.studies.phrase_limits import NEAREST, limits_of
from tests.phrases import PHRASES
from tests.tiny import DIMENSION, tiny_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> checkpoint.Checkpoint:
    return checkpoint.load(tiny_checkpoint(tmp_path_factory.mktemp("tiny")))


PICTURES = np.abs(np.random.default_rng(0).normal(size=(400, DIMENSION))).astype(np.float32)
PICTURES /= np.linalg.norm(PICTURES, axis=1, keepdims=True)


def test_limits_have_the_share_of_pictures_nearer(model: checkpoint.Checkpoint) -> None:
    limits = limits_of(PHRASES, PICTURES, model)
    points = model.model.encode_captions(PHRASES.limited)
    violations = penalties_between("order", PICTURES, points)
    assert limits.shape == (len(PHRASES.limited),)
    assert (violations < limits).mean(0) == pytest.approx(NEAREST)


def test_limits_with_known_truth_leave_out_pictures_that_show_the_phrase(
    model: checkpoint.Checkpoint,
) -> None:
    true = np.zeros((len(PICTURES), len(PHRASES.limited)), np.bool_)
    true[:200] = True
    limits = limits_of(PHRASES, PICTURES, model, true)
    np.testing.assert_array_equal(limits, limits_of(PHRASES, PICTURES[200:], model))
