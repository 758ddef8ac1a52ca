"""The truth of generated captions is learned from those of known truth."""

from __future__ import annotations

import numpy as np

from hasse.models.embedding_model import Points
from hasse.studies.captioner.judgement import FACTS, JudgementInputs
from hasse.studies.captioner.judging import learn
from tests.tiny import DIMENSION


def points(number: int, draw: np.random.Generator) -> Points:
    found = np.abs(draw.normal(size=(number, DIMENSION))).astype(np.float32)
    unit: Points = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def test_judgement_learns_what_tells_truth() -> None:
    draw = np.random.default_rng(0)
    seen = [
        JudgementInputs(
            points(1, draw)[0],
            points(10, draw),
            draw.normal(size=(10, FACTS)) * 5,
        )
        for _ in range(300)
    ]
    true = [(one.facts[:, 1] > 0).tolist() for one in seen]
    judgement = learn(seen, true)
    right = [
        (judgement.probability(one) > 0.5) == truth for one, truth in zip(seen, true, strict=True)
    ]
    assert np.mean(right) > 0.9
