from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hasse.service.pipelines  # noqa: F401 (registers the reader of scenes' meanings)
from hasse.lab.evaluation.calibrating import BINS, calibrate, calibrations, caption_pairs
from hasse.lab.evaluation.ground_truth import Rows, known_ground_truth
from hasse.models.calibration import Calibration, Calibrations, further_words
from hasse.models.datasets import Caption, Dataset, Image
from hasse.models.score import SCORES, Score, penalties_between
from hasse.scenes import Scene, Statement, compose, entails, sample_statements
from hasse.scenes.truth import SceneTruth

CERTAIN = Calibration((0.1, 0.3), (0.8, 0.2), 0.2, 100, 10)


def drawn(seed: int, pairs: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Pairs whose truth has the probability (1 - violation) squared."""
    rng = np.random.default_rng(seed)
    violations = rng.random(pairs)
    return violations, rng.random(pairs) < (1 - violations) ** 2


def test_a_probability_lies_between_its_neighbours_and_stays_at_the_ends() -> None:
    np.testing.assert_allclose(
        CERTAIN.probability([0.0, 0.1, 0.2, 0.3, 5.0]), [0.8, 0.8, 0.5, 0.2, 0.2]
    )


def test_probabilities_are_the_shares_of_true_pairs() -> None:
    measured = calibrate([drawn(0, 200_000)])
    assert measured is not None
    at = np.linspace(0.02, 0.98, 40)
    np.testing.assert_allclose(measured.probability(at), (1 - at) ** 2, atol=0.03)


def test_at_the_threshold_precision_equals_recall() -> None:
    violations, true = drawn(1, 100_000)
    measured = calibrate([(violations, true)])
    assert measured is not None
    called = violations <= measured.threshold
    assert called.sum() == pytest.approx(true.sum(), rel=0.01)


@given(st.integers(0, 2**32 - 1), st.integers(2, 300))
def test_probabilities_fall_and_stay_within_bounds(seed: int, pairs: int) -> None:
    measured = calibrate([drawn(seed, pairs)])
    if measured is not None:  # its constructor refuses anything that rises
        assert all(0 < p < 1 for p in measured.probabilities)
        assert (measured.pairs, len(measured.violations) <= BINS) == (pairs, True)


def test_blocks_add_up() -> None:
    violations, true = drawn(2, 1000)
    whole = calibrate([(violations, true)])
    blocks = [(each[:300].reshape(3, 100), each[300:]) for each in (violations, true)]
    parts = calibrate(zip(*blocks, strict=True))
    assert whole is not None
    assert parts is not None
    np.testing.assert_allclose(parts.violations, whole.violations)
    assert parts.probabilities == whole.probabilities
    assert parts.threshold == whole.threshold


def test_penalties_outside_of_0_to_1_count_as_its_ends() -> None:
    true = np.array([True, False, False])
    assert calibrate([(np.array([-1e-7, 1.3, 2.0]), true)]) == calibrate(
        [(np.array([0.0, 1.0, 1.0]), true)]
    )


@pytest.mark.parametrize("truth", [True, False])
def test_pairs_of_one_kind_tell_nothing(truth: bool) -> None:
    assert calibrate([(np.array([0.1, 0.2]), np.array([truth, truth]))]) is None


@pytest.mark.parametrize(
    ("violations", "probabilities", "threshold"),
    [
        ((0.1, 0.2), (0.3, 0.4), 0.1),
        ((0.2, 0.2), (0.4, 0.3), 0.1),
        ((0.1, 0.2), (0.4,), 0.1),
        ((), (), 0.1),
        ((0.1, 0.2), (1.4, 0.3), 0.1),
        ((0.1, 0.2), (0.4, -0.3), 0.1),
        ((0.1, 0.2), (0.4, 0.3), -0.1),
        ((0.1, 0.2), (0.4, 0.3), math.nan),
    ],
)
def test_what_is_no_falling_curve_of_probabilities_is_refused(
    violations: tuple[float, ...], probabilities: tuple[float, ...], threshold: float
) -> None:
    with pytest.raises(ValueError, match="to fall"):
        Calibration(violations, probabilities, threshold, 2, 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("dog", 0),
        ("A dog.", 0),
        ("the dog's tail", 1),
        ("two dogs on a beach", 3),
        ("ein Hund läuft", 2),
        ("犬が走る", 3),
    ],
)
def test_further_words_are_those_after_the_first_without_articles(text: str, count: int) -> None:
    assert further_words(text) == count


def test_each_further_word_takes_from_the_probability() -> None:
    known = replace(CERTAIN, word_weight=0.1)
    texts = ["a dog", "a brown dog", "a brown dog runs"]
    assert known.of_texts(texts, [0.1, 0.1, 0.1]) == pytest.approx([0.8, 0.5, 0.2])
    assert Calibrations.from_json(Calibrations(known).to_json()).image == known


def test_kinds_of_pairs_count_equally_however_many_there_are() -> None:
    few, many = (np.full(10, 0.25), np.full(10, True)), (np.full(1000, 0.25), np.full(1000, False))
    found = calibrate([few], [many])
    assert found is not None
    assert found.probability(0.25) == pytest.approx(0.5)
    assert calibrate([few]) is None
    assert calibrate() is None


def test_a_calibration_that_counted_words_otherwise_counts_as_none() -> None:
    former = CERTAIN.to_json() | {"length_weight": 0.03}
    assert Calibrations.from_json({"image": former, "caption": None}) == Calibrations()
    former["length_weight"] = 0.0
    things = former | {"things": CERTAIN.to_json(), "untaught_weight": 0.2}
    assert Calibrations.from_json({"image": things, "caption": things}) == Calibrations()
    assert Calibrations.from_json({"image": former, "caption": None}) == Calibrations(CERTAIN)


def drawn_scenes() -> Dataset:
    draw = random.Random(0)
    images = []
    for row in range(12):
        said = sample_statements(draw, 2, concepts=1)
        captions = tuple(
            Caption(10 * row + at, row, each.text, each.to_json()) for at, each in enumerate(said)
        )
        scene = compose(draw)
        images.append(
            Image(row, f"{row}.png", Path(f"{row}.png"), "val", 9, 9, captions, scene.to_json())
        )
    return Dataset("scenes", tuple(images))


def some_points(count: int) -> NDArray[np.float32]:
    points = np.random.default_rng(0).random((count, 4), dtype=np.float32)
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("rows", [5, 256])
def test_scenes_calibrate_images_and_captions_by_meaning_in_blocks_of_any_size(
    rows: int, score: Score
) -> None:
    dataset = drawn_scenes()
    statements = _statements(list(dataset.captions))
    points = some_points(len(statements))
    found = calibrations(dataset, points[:12], points, score, block_rows=rows)
    entailed = np.array([[entails(p, h) for h in statements] for p in statements])
    others = ~np.eye(len(statements), dtype=np.bool_)
    held = known_ground_truth(dataset).holds(np.arange(12), np.arange(len(statements)))
    for measured, expected, pairs in (
        (found.image, (penalties_between(score, points[:12], points), held), held.size),
        (
            found.caption,
            (penalties_between(score, points, points)[others], entailed[others]),
            others.sum(),
        ),
    ):
        plain = calibrate([expected])
        assert measured is not None
        assert plain is not None
        assert (measured.pairs, measured.true) == (pairs, expected[1].sum())
        for name in ("violations", "probabilities", "threshold"):
            np.testing.assert_allclose(
                getattr(measured, name), getattr(plain, name), rtol=1e-5, atol=1e-6
            )


def test_caption_pairs_are_taken_from_the_first_caption_to_the_last() -> None:
    asked: list[list[int]] = []

    class Watched(SceneTruth):
        def entails(self, premises: Rows, hypotheses: Rows) -> NDArray[np.bool_]:
            asked.append(premises.tolist())
            return super().entails(premises, hypotheses)

    dataset = drawn_scenes()
    scenes = [Scene.from_json(image.meaning or {}) for image in dataset.images]
    captions = list(dataset.captions)
    ((penalties, _),) = caption_pairs(
        Watched(scenes, _statements(captions)), some_points(24), "order", count=5
    )
    assert asked == [[0, 5, 11, 17, 23]]
    assert len(penalties) == 5 * 4


def _statements(captions: list[Caption]) -> list[Statement]:
    return [Statement.from_json(caption.meaning or {}) for caption in captions]


def test_photographs_calibrate_images_alone() -> None:
    images = tuple(
        Image(r, f"{r}.png", Path(f"{r}.png"), "val", 9, 9, (Caption(r, r, f"number {r}"),))
        for r in range(6)
    )
    points = np.eye(6, dtype=np.float32)
    found = calibrations(Dataset("numbers", images), points, points, "order")
    assert found.caption is None
    assert isinstance(found.image, Calibration)
    assert (found.image.pairs, found.image.true) == (36, 6)
    assert found.image.probability(0.0) > 0.9
    assert found.image.probability(1.0) < 0.1
