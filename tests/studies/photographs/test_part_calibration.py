"""Scores of parts, fitted to pairs whose truth is known."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from hasse.models.datasets import DatasetError
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.grounding.grounded_texts import GroundedTexts, TrainedTexts
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.vocabulary import Vocabulary
from hasse.studies.photographs.part_calibration import Judged, fit_scores
from tests.models.grounding.test_part_scores import DIMENSION, Scrambled, pictures
from tests.models.grounding.test_reading import ANIMAL, DOG, PERSON, RUN, TABLE

TEXTS = ("a person", "runs", "a dog", "an animal", "a dog runs", "a person on a dog", "a park")


@pytest.fixture
def model() -> GroundedTexts:
    config = ModelConfig(dimension=DIMENSION)
    base = Scrambled(config, Vocabulary(["dog"]), Preprocessing())
    return GroundedTexts(cast(TrainedTexts, base), np.arange(DIMENSION), TABLE)


def judged(model: GroundedTexts) -> Judged:
    points = pictures(300)
    evidence = model.split(points)[1]
    needs = ((PERSON,), (RUN,), (DOG,), (ANIMAL,), (DOG, RUN), (PERSON, DOG), ())
    noise = np.random.default_rng(1).normal(0, 0.1, (300, len(TEXTS)))
    levels = np.stack([evidence[:, list(each)].min(1, initial=1.0) for each in needs], 1)
    levels[:, -1] = 0.5  # nothing tells of a park
    true = levels + noise > 0.5
    rows, columns = np.indices(true.shape)
    return Judged(points, TEXTS, rows.ravel(), columns.ravel(), true.ravel())


def test_fitted_scores_tell_what_is_true(model: GroundedTexts) -> None:
    pairs = judged(model)
    scores = fit_scores(model, [pairs])
    asked = [pairs.texts[row] for row in pairs.text_rows]
    odds = model.log_odds(scores, asked, pairs.points[pairs.rows])
    tells = pairs.text_rows < len(TEXTS) - 1
    assert ((odds > 0) == pairs.true)[tells].mean() > 0.8
    assert (scores.pairs, scores.true) == (len(pairs.true), int(pairs.true.sum()))


def test_phrases_of_numbers_of_words_without_texts_are_scored_as_the_nearest(
    model: GroundedTexts,
) -> None:
    scores = fit_scores(model, [judged(model)])
    assert scores.phrases[2:] == (scores.phrases[1],) * 3 or len(set(scores.phrases[2:])) == 1


def test_pairs_of_one_kind_are_refused(model: GroundedTexts) -> None:
    pairs = judged(model)
    every = Judged(pairs.points, pairs.texts, pairs.rows, pairs.text_rows, np.ones_like(pairs.true))
    with pytest.raises(DatasetError, match="give more pairs"):
        fit_scores(model, [every])
