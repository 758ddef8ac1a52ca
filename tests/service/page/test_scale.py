"""The scale of fits: its ends, and what a violation shows as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow, ModelIdentity, Points
from hasse.models.evaluation.calibration import Calibration
from hasse.models.score import Score
from hasse.service.page.scale import Scale, measure

KNOWN = Calibration((0.1, 0.2, 0.4), (0.5, 0.1, 0.001), 0.2, pairs=1000, true=10)
SPANS = st.tuples(st.floats(0, 1), st.floats(0.06, 1)).map(lambda ends: (ends[0], sum(ends)))
SCALES = SPANS.map(lambda ends: Scale.even(*ends)) | st.builds(
    Scale, st.just(0.0), st.floats(0, 1), st.floats(0, 1)
)


@given(SCALES, st.floats(0, 4), st.floats(0, 4))
def test_fit_never_grows_with_the_violation(scale: Scale, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert 0 <= scale.fit(more).percent <= scale.fit(less).percent <= 100


@given(SCALES)
def test_fit_of_violation_0_is_a_full_bar(scale: Scale) -> None:
    assert scale.fit(0.0).percent == 100


@given(SCALES, st.floats(0, 4))
def test_fit_has_a_word_and_a_level(scale: Scale, violation: float) -> None:
    fit = scale.fit(violation)
    assert fit.word
    assert fit.level in {"well", "nearly", "partly", "hardly"}


def one_hot(dimension: int) -> Points:
    """A hundred points on as many axes as there are coordinates: (100, N)."""
    return np.eye(dimension, dtype=np.float32)[np.arange(100) % dimension]


def index_of(folder: Path, points: Points, score: Score = "order") -> Index:
    """An index of images that are their own captions, at ids 0, 1, 2, ..."""
    model = ModelIdentity("tiny", "0" * 64, points.shape[1], score)
    index = Index.create(folder, model, threads=1)
    numbers = range(len(points))
    index.add(
        [ImageRow(n, f"{n}.jpg", f"{n}.jpg") for n in numbers],
        points,
        [CaptionRow(n, n, f"thing {n}") for n in numbers],
        points,
    )
    return index


def test_calibrated_scale_fits_exactly_up_to_the_threshold() -> None:
    scale = Scale.calibrated(KNOWN)
    threshold = np.float32(KNOWN.threshold)
    just_true, just_false = (float(np.nextafter(threshold, np.float32(to))) for to in (0, 1))
    assert scale.fit(just_true).word == scale.fit(KNOWN.threshold).word == "fits"
    assert scale.fit(just_false).word == "nearly"


def test_calibrated_scale_is_empty_at_the_chance_of_a_random_pair() -> None:
    scale = Scale.calibrated(KNOWN)
    assert KNOWN.probability(scale.empty) == pytest.approx(KNOWN.true / KNOWN.pairs)
    assert scale.fit(0.0).percent == 100
    assert scale.fit(scale.empty).percent == 0
    assert 0 < scale.fit(scale.empty - 0.05).percent < scale.fit(KNOWN.threshold + 0.01).percent


def test_calibrated_scale_with_empty_end_below_threshold_fits_up_to_the_threshold() -> None:
    known = Calibration((0.1, 0.5), (0.9, 0.1), 0.4, pairs=100, true=50)
    scale = Scale.calibrated(known)
    assert scale.empty < known.threshold
    assert scale.fit(known.threshold).word == "fits"
    assert scale.fit(known.threshold + 1e-9).percent == 0


@pytest.mark.parametrize("score", ["order", "order-reversed", "cosine"])
def test_measure_separated_captions_gives_full_and_empty_bars(tmp_path: Path, score: Score) -> None:
    with index_of(tmp_path / "i", one_hot(4), score) as index:
        assert measure(index, {n: [n] for n in range(100)}, None) == Scale.even(0.0, 1.0)


def test_measure_never_fits_beyond_the_threshold_of_the_calibration(tmp_path: Path) -> None:
    captions_of = {n: [n] for n in range(100)}
    with index_of(tmp_path / "i", one_hot(4)) as index:
        for threshold, fits in ((0.1, 0.1), (0.2, 0.2), (0.25, 0.25), (0.6, 0.25)):
            known = replace(KNOWN, threshold=threshold)
            assert measure(index, captions_of, known) == Scale(0.0, fits, 1.0)
        strict = replace(KNOWN, threshold=0.0)  # none but what is full, and then it alone tells
        assert measure(index, captions_of, strict) == Scale.calibrated(strict)


def test_measure_takes_the_ends_from_the_collection(tmp_path: Path) -> None:
    with index_of(tmp_path / "i", one_hot(4) * 0.8 + 0.1) as index:
        scale = measure(index, {n: [n] for n in range(100)}, KNOWN)
        assert scale.full == 0
        assert scale.empty == pytest.approx(0.64)


def test_measure_of_a_guessing_model_falls_back_to_the_calibration(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((120, 16), np.float32)
    with index_of(tmp_path / "i", points) as index:
        guessed = {n: [(n + 1) % 120] for n in range(120)}
        assert measure(index, guessed, KNOWN) == Scale.calibrated(KNOWN)
        assert measure(index, guessed, None) == Scale.even()


def test_measure_without_usable_pairs_falls_back_to_the_calibration(tmp_path: Path) -> None:
    with index_of(tmp_path / "i", np.ones((3, 4), np.float32)) as index:
        told: list[dict[int, list[int]]] = [{}, {0: [], 1: []}, {77: [88]}, {0: [0] * 120}]
        for captions_of in told:
            assert measure(index, captions_of, KNOWN) == Scale.calibrated(KNOWN)
            assert measure(index, captions_of, None) == Scale.even()


def test_measure_with_few_captions_falls_back_to_the_calibration(tmp_path: Path) -> None:
    with index_of(tmp_path / "i", one_hot(4)) as index:
        assert measure(index, {n: [n] for n in range(99)}, KNOWN) == Scale.calibrated(KNOWN)


def test_measure_ignores_images_and_captions_that_were_removed(tmp_path: Path) -> None:
    with index_of(tmp_path / "i", one_hot(4)) as index:
        drawn = {n: [n] for n in range(100)} | {777: [1], 2: [2, 888]}
        assert measure(index, drawn, None) == Scale.even(0.0, 1.0)
