"""Bars that mean the same in every collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.store import Index
from index.terms import CaptionRow, ImageRow, ModelIdentity, Points, Score
from service.page.scale import Scale, measure

SPANS = st.tuples(st.floats(0, 1), st.floats(0.06, 1)).map(lambda ends: (ends[0], sum(ends)))


@given(SPANS, st.floats(0, 4), st.floats(0, 4))
def test_a_bar_never_grows_with_the_violation(
    ends: tuple[float, float], one: float, other: float
) -> None:
    scale = Scale(*ends)
    less, more = sorted((one, other))
    assert 0 <= scale.fit(more).percent <= scale.fit(less).percent <= 100


@given(SPANS)
def test_a_caption_that_holds_exactly_fills_its_bar(ends: tuple[float, float]) -> None:
    assert Scale(*ends).fit(0.0).percent == 100


@given(SPANS, st.floats(0, 4))
def test_every_bar_has_a_word_and_a_colour(ends: tuple[float, float], violation: float) -> None:
    fit = Scale(*ends).fit(violation)
    assert fit.word
    assert fit.level in {"well", "nearly", "partly", "hardly"}


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


@pytest.mark.parametrize("score", ["order", "order-reversed", "cosine"])
def test_own_captions_have_full_bars_and_others_empty_ones(tmp_path: Path, score: Score) -> None:
    with index_of(tmp_path / "i", np.eye(4, dtype=np.float32), score) as index:
        assert measure(index, {n: [n] for n in range(4)}) == Scale(0.0, 1.0)


def test_the_ends_are_those_of_the_collection(tmp_path: Path) -> None:
    points = (np.eye(4) * 0.8 + 0.1).astype(np.float32)
    with index_of(tmp_path / "i", points) as index:
        scale = measure(index, {0: [0], 1: [1], 2: [2], 3: [0]})
        assert scale.full == 0
        assert scale.empty == pytest.approx(0.64)


def test_a_model_that_guesses_has_no_full_bars(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((60, 16), np.float32)
    with index_of(tmp_path / "i", points) as index:
        assert measure(index, {n: [(n + 1) % 60] for n in range(60)}) == Scale()


def test_a_collection_that_tells_nothing_has_the_plain_scale(tmp_path: Path) -> None:
    with index_of(tmp_path / "i", np.ones((3, 4), np.float32)) as index:
        assert measure(index, {n: [n] for n in range(3)}) == Scale()
        assert measure(index, {}) == Scale()
        assert measure(index, {0: [], 1: []}) == Scale()
        assert measure(index, {77: [88]}) == Scale()
