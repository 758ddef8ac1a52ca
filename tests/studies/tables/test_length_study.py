from __future__ import annotations

import numpy as np
import pytest

from hasse.models.score import SCORES, Score
from hasse.studies.bootstrap import interval
from hasse.studies.tables import length_study as study
from hasse.studies.tables.length_study import length_study
from tests.lab.evaluation.test_retrieval import dataset, unit

TEXTS = [
    ["a dog", "a big brown dog runs on the wide beach"],
    ["a cat sleeps", "a cat"],
    ["two red boats on a lake", "boats"],
    ["one", "two"],
]


def test_the_largest_gaps_are_taken_the_shorter_caption_first() -> None:
    lengths = np.array([len(text.split()) for texts in TEXTS for text in texts])
    assert study.largest_gaps(dataset(TEXTS), lengths).tolist() == [[0, 1], [5, 4], [3, 2]]
    assert study.largest_gaps(dataset(TEXTS), lengths, 2).tolist() == [[0, 1], [5, 4]]


def test_of_equal_gaps_the_first_are_taken() -> None:
    lengths = np.array([[1, 2], [1, 3]] * 150).ravel()
    found = study.largest_gaps(dataset([["a", "b"]] * 300), lengths)
    assert found.tolist() == [[4 * at + 2, 4 * at + 3] for at in range(study.PAIRS)]


@pytest.mark.parametrize("score", SCORES)
def test_points_that_coincide_are_found_first(score: Score) -> None:
    # The captions of an image share its point, so each stands first, but for itself.
    images = np.eye(4, dtype=np.float32)
    found = length_study(dataset(TEXTS), images, np.repeat(images, 2, axis=0), score)
    assert found is not None
    assert (found.pairs, found.least_gap) == (3, 1)
    assert found.image_rank == found.caption_rank == 1


def test_ranks_are_those_of_a_plain_count() -> None:
    rng = np.random.default_rng(0)
    images, captions = unit(rng.random((4, 6))), unit(rng.random((8, 6)))
    found = length_study(dataset(TEXTS), images, captions, "order", block=2)
    assert found is not None

    def violation(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.square(np.maximum(0, y.astype(float) - x)).sum())

    of_images = []
    for caption in (0, 1, 5, 4, 3, 2):
        own = violation(images[caption // 2], captions[caption])
        of_images.append(1 + sum(violation(image, captions[caption]) < own for image in images))
    of_captions = []
    for short, long in ((0, 1), (5, 4), (3, 2)):
        own = violation(captions[long], captions[short])
        others = [captions[row] for row in range(8) if row != short]
        of_captions.append(1 + sum(violation(other, captions[short]) < own for other in others))
    assert found.image_rank == pytest.approx(np.mean(of_images))
    assert found.caption_rank == pytest.approx(np.mean(of_captions))
    pairs = np.reshape(of_images, (3, 2)).mean(1)
    assert found.image_rank_interval == pytest.approx(interval(pairs))
    assert found.caption_rank_interval == pytest.approx(interval(of_captions))


def test_half_of_the_ties_stand_before() -> None:
    points = np.ones((12, 1), np.float32)
    found = length_study(dataset(TEXTS), points[:4], points[:8], "order")
    assert found is not None
    assert found.image_rank == 2.5  # of four images
    assert found.caption_rank == 4  # of the seven captions that do not ask


def test_signs_are_no_words() -> None:
    points = np.eye(1, dtype=np.float32)
    texts = [["a dog !", "a big dog"]]
    found = length_study(dataset(texts), points, points[[0, 0]], "order")
    assert found is not None
    assert found.least_gap == 1


def test_captions_of_one_length_say_nothing() -> None:
    points = np.eye(2, dtype=np.float32)
    assert length_study(dataset([["one"], ["two"]]), points, points, "order") is None
