"""Captions without torch: the points of the same model with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.models.checkpoints import checkpoint
from hasse.models.checkpoints.named_models import pretrained
from hasse.models.text_model import TextModel
from tests.tiny import tiny_checkpoint

TEXTS = ["a dog", "two men play football on a wet field", "", "zeppelin", "the red cat's tail"]


@pytest.mark.parametrize("name", ["scenes", "photographs/base"])
def test_points_of_a_built_in_model_are_those_of_torch(name: str) -> None:
    alone = checkpoint.load(pretrained("scenes").parent / name, with_pictures=False)
    before = torch.random.get_rng_state()
    trained = order_embedding_of(
        learned_model.load(pretrained("scenes").parent / name, to_learn=True)
    )
    assert torch.equal(torch.random.get_rng_state(), before)  # no weight is drawn to be replaced
    assert isinstance(alone.model, TextModel)
    found = alone.model.encode_captions(TEXTS)
    expected = trained.caption_points(*trained.tokens(TEXTS)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found, trained.encode_captions(TEXTS))
    once = checkpoint.load(alone.folder, with_pictures=False, one_off=True)
    np.testing.assert_allclose(once.model.encode_captions(TEXTS), found, atol=2e-6)
    assert alone.fingerprint == checkpoint.load(alone.folder, with_pictures=False).fingerprint
    references = trained.references
    assert (alone.model.references is None) == (references is None)


def test_a_model_that_is_compared_by_the_cosine_encodes_texts_alike(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path, "cosine")
    alone, whole = (checkpoint.load(tmp_path, with_pictures=on).model for on in (False, True))
    points = alone.encode_captions(TEXTS)
    np.testing.assert_array_equal(points, whole.encode_captions(TEXTS))
    assert alone.as_premises(points) is points
