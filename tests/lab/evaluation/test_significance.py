from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hasse.lab.evaluation.ranking import Ranking
from hasse.lab.evaluation.retrieval import Evaluation, Retrieval
from hasse.lab.evaluation.significance import (
    DIRECTIONS,
    METRICS,
    difference,
    differences,
    draws,
    intervals,
    resample,
)


def ranking(images: np.ndarray, rng: np.random.Generator, highest: int = 20) -> Ranking:
    ranks = 1 + rng.integers(0, 2 * highest, len(images)) / 2  # halves, as ties give
    return Ranking(images, ranks, 1 / ranks, 0)


def retrieval(seed: int, images: int = 30, each: int = 5, highest: int = 20) -> Retrieval:
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(images), each)
    return Retrieval(
        images,
        len(owners),
        "annotation",
        ranking(np.arange(images), rng, highest),
        ranking(owners, rng, highest),
    )


@pytest.mark.parametrize("images", [29, 30])  # the median is of one rank, or of two
def test_a_draw_is_measured_as_the_queries_it_stands_for(
    images: int,
) -> None:
    block = retrieval(1, images)
    found = resample([block], 7)
    for at, counts in enumerate(draws(block.images, samples=7)):
        for row, direction in enumerate(DIRECTIONS):
            one = getattr(block, direction)
            queries = np.repeat(np.arange(len(one.images)), counts[one.images])
            plain = Ranking(one.images, one.ranks[queries], one.precisions[queries], 0).metrics
            expected = [getattr(plain, metric) for metric in METRICS]
            np.testing.assert_allclose(found[row, :, at], expected)


def test_intervals_hold_what_was_measured() -> None:
    block = retrieval(2)
    found, measured = intervals([block]), block.evaluation
    for direction in DIRECTIONS:
        for metric in METRICS:
            low, high = found.metrics[direction][metric]
            assert low <= getattr(getattr(measured, direction), metric) <= high, metric
    assert found.rsum[0] < measured.rsum < found.rsum[1]


def test_images_that_do_not_ask_are_not_drawn() -> None:
    block = retrieval(2)
    others = {
        direction: replace(one, images=3 * one.images)
        for direction in DIRECTIONS
        for one in [getattr(block, direction)]
    }
    assert intervals([replace(block, images=90, **others)]) == intervals([block])


def test_blocks_are_drawn_apart_and_their_mean_is_surer_than_one_of_them() -> None:
    block = retrieval(2)
    one, four = intervals([block]).rsum, intervals([block] * 4).rsum
    assert four[0] < block.evaluation.rsum < four[1]
    assert (four[1] - four[0]) / (one[1] - one[0]) == pytest.approx(1 / 2, abs=0.1)


def test_intervals_hold_95_of_100_draws() -> None:
    block = retrieval(2)
    found, drawn = intervals([block]), resample([block])
    for row, direction in enumerate(DIRECTIONS):
        low, high = found.metrics[direction]["mean"]
        means = drawn[row, METRICS.index("mean")]
        assert np.mean((low <= means) & (means <= high)) == pytest.approx(0.95, abs=0.01)
    (low, high), rsums = found.rsum, drawn[:, :3].sum((0, 1))
    assert np.mean((low <= rsums) & (rsums <= high)) == pytest.approx(0.95, abs=0.01)


def test_captions_of_one_image_are_no_independent_evidence() -> None:
    # Five captions that find alike say no more than one: the interval must not shrink.
    single = retrieval(3, images=200, each=1)
    owners, ranks = np.repeat(np.arange(200), 5), np.repeat(single.image_retrieval.ranks, 5)
    copied = Retrieval(
        200, 1000, "annotation", single.caption_retrieval, Ranking(owners, ranks, 1 / ranks, 0)
    )
    one, five = (intervals([block]).metrics["image_retrieval"]["r5"] for block in (single, copied))
    assert one == pytest.approx(five)


def test_a_model_does_not_differ_from_itself() -> None:
    found = differences([retrieval(4)], [retrieval(4)])
    assert found.rsum == (0, 0)


def test_a_better_model_is_better_beyond_chance_and_the_sign_says_which() -> None:
    good, bad = [retrieval(5, highest=6)], [retrieval(6, highest=60)]
    assert differences(good, bad).rsum[0] > 0
    assert differences(bad, good).rsum[1] < 0
    gap = difference(good[0].evaluation, bad[0].evaluation)
    assert gap["rsum"] == pytest.approx(good[0].evaluation.rsum - bad[0].evaluation.rsum)
    assert gap["image_retrieval"]["mean"] < 0


def test_pairing_makes_a_small_steady_gain_visible() -> None:
    rng = np.random.default_rng(7)
    block = retrieval(8, images=300)
    ranks = block.image_retrieval.ranks
    gain = Retrieval(
        block.images,
        block.captions,
        "annotation",
        block.caption_retrieval,
        Ranking(
            block.image_retrieval.images,
            np.maximum(1, ranks - (rng.random(len(ranks)) < 0.2)),
            block.image_retrieval.precisions,
            0,
        ),
    )
    _, high = differences([gain], [block]).metrics["image_retrieval"]["mean"]
    assert high < 0
    (low, _), (_, before) = (
        intervals([one]).metrics["image_retrieval"]["mean"] for one in (block, gain)
    )
    assert low < before, "apart, their intervals overlap"


def test_every_metric_is_averaged_over_blocks_and_counts_are_added_up() -> None:
    blocks = [retrieval(seed).evaluation for seed in (9, 10)]
    mean = Evaluation.mean(blocks)
    assert (mean.images, mean.captions) == (60, 300)
    assert mean.image_retrieval.queries == 300
    for metric in METRICS:
        expected = np.mean([getattr(block.image_retrieval, metric) for block in blocks])
        assert getattr(mean.image_retrieval, metric) == pytest.approx(expected)
    assert mean.rsum == pytest.approx(np.mean([block.rsum for block in blocks]))


def test_other_queries_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same images and captions"):
        differences([retrieval(11)], [retrieval(11, images=29)])
    with pytest.raises(ValueError, match="same images and captions"):
        differences([retrieval(11)], [replace(retrieval(11), images=31)])
    with pytest.raises(ValueError, match="same images and captions"):
        differences([retrieval(11)], [retrieval(11), retrieval(12)])
