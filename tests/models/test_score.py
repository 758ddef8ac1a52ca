from __future__ import annotations

import numpy as np
import pytest

from hasse.models.score import Score, penalties_between, penalties_of


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("order", [[0.0, 0.04], [0.36, 0.64]]),  # what the caption has and the image lacks
        ("order-reversed", [[0.0, 0.04], [0.04, 0.16]]),  # the other way round
        ("cosine", [[0.0, 0.04], [0.2, 0.4]]),
    ],
)
def test_each_score_is_that_of_its_formula(score: Score, expected: list[list[float]]) -> None:
    images = np.array([[0.6, 0.8], [0.0, 1.0]], dtype=np.float32)
    captions = np.array([[0.6, 0.8], [0.8, 0.6]], dtype=np.float32)
    found = penalties_between(score, images, captions)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    alone = [penalties_of(score, image, captions) for image in images]
    np.testing.assert_allclose(alone, expected, atol=1e-6)
