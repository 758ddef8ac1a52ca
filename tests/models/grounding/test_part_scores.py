"""Probabilities of texts agree with the order, whatever the picture and the weights."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pytest

from hasse.models.calibration import Calibrations, Judge
from hasse.models.embedding_model import EmbeddingModel, Points
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.grounding.grounded_texts import SCALE, GroundedTexts, TrainedTexts
from hasse.models.grounding.part_scores import UNTOLD, PartScores, Weights
from hasse.models.grounding.reading import parts_of
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.vocabulary import Vocabulary
from tests.models.grounding.test_reading import TABLE

DIMENSION = 8
SCORES = PartScores(
    (4.0, -2.0),
    (6.0, -3.0),
    tuple(Weights(5.0 + at, -9.0 - at, 0.3, -0.2, -1.0) for at in range(5)),
    20,
    10,
)
NOUNS = ("dog", "animal", "athlete", "skier", "giraffe", "park", "person", "group")
LOOKS = ("brown", "red", "toy", "no")


@dataclass
class Scrambled:
    """Stands for a trained model: the point of a text is random, and always the same."""

    config: ModelConfig
    vocabulary: Vocabulary
    preprocessing: Preprocessing
    references: Points | None = None

    def encode_captions(self, texts: list[str], batch_size: int = 256) -> Points:
        rows = [
            np.random.default_rng(list(text.encode())).random(DIMENSION, np.float32)
            for text in texts
        ]
        points = np.array(rows, np.float32).reshape(len(texts), DIMENSION)
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points / np.maximum(lengths, 1e-9), np.float32)


@pytest.fixture
def model() -> GroundedTexts:
    base = Scrambled(ModelConfig(dimension=DIMENSION), Vocabulary(["dog"]), Preprocessing())
    return GroundedTexts(cast(TrainedTexts, base), np.arange(DIMENSION), TABLE)


def pictures(count: int) -> Points:
    draw = np.random.default_rng(0)
    learned = draw.random((count, DIMENSION), np.float32)
    evidence = draw.random((count, TABLE.size), np.float32)
    evidence[:, 0] = np.maximum(evidence[:, 0], evidence[:, 1])  # an animal is there where a dog is
    return np.concatenate([learned, np.float32(SCALE) * evidence], 1)


def random_text(draw: random.Random) -> str:
    def thing() -> str:
        looks = draw.sample(LOOKS, draw.randrange(3))
        return " ".join(["a", *looks, draw.choice(NOUNS), *draw.sample(["runs", "sits"], 1)[:1]])

    return f" {draw.choice(('on', 'of', 'with'))} ".join(
        thing() for _ in range(draw.randrange(1, 5))
    )


def test_no_text_is_more_probable_than_what_follows_from_it(model: GroundedTexts) -> None:
    judge = Judge(cast(EmbeddingModel, model), SCORES)
    shown, draw = pictures(20), random.Random(0)
    for _ in range(60):
        text = random_text(draw)
        parts = [part.text for part in parts_of(TABLE, text)]
        table = judge.table([text, *parts], shown, np.zeros((20, 1 + len(parts)), np.float32))
        assert (table[:, :1] <= table[:, 1:] + 1e-12).all()


@pytest.mark.parametrize(
    ("special", "general"),
    [("a dog", "an animal"), ("a skier", "an athlete"), ("a giraffe", "an animal")],
)
def test_general_word_is_at_least_as_probable_as_a_special_one(
    model: GroundedTexts, special: str, general: str
) -> None:
    scores = replace(SCORES, classes=(6.0, 0.0), taught=(4.0, 1.0))
    found = Judge(cast(EmbeddingModel, model), scores).table(
        [special, general], pictures(50), np.zeros((50, 2), np.float32)
    )
    assert (found[:, 0] <= found[:, 1]).all()


@pytest.mark.parametrize(
    "text", ["a park", "brown", "a person sits on a dog", "a unicorn in a park"]
)
def test_what_no_picture_has_evidence_of_is_never_likely(model: GroundedTexts, text: str) -> None:
    sure = replace(SCORES, phrases=(Weights(90.0, -1.0),) * 5)
    odds = model.log_odds(sure, [text] * 10, pictures(10))
    assert (odds <= UNTOLD).all()
    assert (model.log_odds(sure, ["a dog runs"] * 10, pictures(10)) > UNTOLD).any()


def test_text_that_says_nothing_is_not_likely(model: GroundedTexts) -> None:
    judge = Judge(cast(EmbeddingModel, model), SCORES)
    assert judge.probabilities(["the", "a dog"], pictures(2), ())[0] == 0


def test_scores_are_read_as_they_were_written() -> None:
    written = json.loads(json.dumps(Calibrations(SCORES, SCORES).to_json()))
    assert Calibrations.from_json(written) == Calibrations(SCORES, SCORES)


def test_scores_that_fall_with_evidence_are_refused() -> None:
    with pytest.raises(ValueError, match="rise with evidence"):
        replace(SCORES, taught=(-1.0, 0.0))


def test_parts_that_were_read_are_remembered_and_stay_the_same(model: GroundedTexts) -> None:
    first = model.log_odds(SCORES, ["a dog runs", "a park"], pictures(2))
    again = model.log_odds(SCORES, ["a dog runs", "a park"], pictures(2))
    np.testing.assert_array_equal(first, again)
