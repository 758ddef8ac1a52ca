"""Hubness correction gives each point the length of the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from hasse.models.encoders.hubness import SHARE, SPREADS, HubnessCorrection, Kind
from hasse.models.score import SCORES, Score, penalties_between

KINDS: tuple[Kind, Kind] = ("image", "caption")
INVERSE_TEMPERATURE = 20.0


def unit(count: int, seed: int, score: Score = "order", dimension: int = 24) -> Tensor:
    drawn = torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed))
    return normalize(drawn if score == "cosine" else drawn.abs(), dim=1)


def fitted(score: Score = "order", size: int = 40) -> HubnessCorrection:
    hubness = HubnessCorrection(size, 24, score)
    hubness.fit(unit(90, 1, score), unit(90, 2, score), INVERSE_TEMPERATURE)
    return hubness


def biases(hubness: HubnessCorrection, points: Tensor, kind: Kind) -> NDArray[np.float64]:
    """The definition, in float64."""
    images, captions = (points, hubness.captions) if kind == "image" else (hubness.images, points)
    penalty = penalties_between(hubness.score, images.numpy(), captions.numpy()).astype(np.float64)
    shares = np.exp(-INVERSE_TEMPERATURE * penalty).mean(1 if kind == "image" else 0)
    found: NDArray[np.float64] = -np.log(shares) / INVERSE_TEMPERATURE
    return found


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_the_definition(score: Score, kind: Kind) -> None:
    hubness, points = fitted(score), unit(200, 3, score)
    seen = unit(90, 1 + KINDS.index(kind), score)[40:]
    others = biases(hubness, seen, kind)
    mean, spread = others.mean(), others.std(ddof=1)
    longer, shorter = (biases(hubness, seen * factor, kind) for factor in (1.05, 1 / 1.05))
    slope = (longer - shorter).mean() / (2 * np.log(1.05))
    beyond = np.clip(biases(hubness, points, kind) - mean, -SPREADS * spread, SPREADS * spread)
    assert np.abs(beyond).max() == pytest.approx(SPREADS * spread)  # some are as far as may be
    expected = np.exp(-SHARE * beyond / slope)
    found = hubness.correct(points, kind)
    assert found.norm(dim=1).numpy() == pytest.approx(expected, rel=1e-4)
    assert normalize(found, dim=1).numpy() == pytest.approx(points.numpy(), abs=1e-6)


def test_a_hub_gets_shorter_as_an_image_and_longer_as_a_caption() -> None:
    hubness = fitted()
    hub = normalize(torch.ones(1, 24), dim=1)
    assert hubness.correct(hub, "image").norm() < 0.97
    assert hubness.correct(hub, "caption").norm() > 1.01
    lonely = torch.eye(24)[:1]
    assert hubness.correct(lonely, "image").norm() > 1.03
    assert hubness.correct(lonely, "caption").norm() < 0.99


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_biases_spread_less_after_the_correction(score: Score, kind: Kind) -> None:
    hubness = HubnessCorrection(40, 24, score)
    hubness.fit(unit(90, 1), unit(90, 2), INVERSE_TEMPERATURE)
    points = unit(200, 3)
    before = biases(hubness, points, kind).std()
    assert biases(hubness, hubness.correct(points, kind), kind).std() < 0.6 * before


def test_points_stay_as_they_are_before_fit() -> None:
    points = unit(5, 3)
    assert torch.equal(HubnessCorrection(40, 24, "order").correct(points, "image"), points)
    assert fitted().correct(points[:0], "image").shape == (0, 24)


@pytest.mark.parametrize("kind", KINDS)
def test_a_length_has_the_same_bits_whatever_is_beside_it(kind: Kind) -> None:
    hubness, points = fitted(size=70), unit(33, 3)
    together = hubness.correct(points, kind)
    alone = torch.cat([hubness.correct(point[None], kind) for point in points])
    assert torch.equal(together, alone)
    hubness.block = 7
    assert torch.equal(hubness.correct(points, kind), together)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_for_inference_changes_no_bit(score: Score, kind: Kind) -> None:
    hubness, points = fitted(score), unit(7, 3, score)
    before = [hubness.correct(some, kind) for some in (points, points[:1], points[:5])]
    hubness.for_inference()
    for some, expected in zip((points, points[:1], points[:5]), before, strict=True):
        assert torch.equal(hubness.correct(some, kind), expected)


def test_a_new_order_of_coordinates_changes_no_length() -> None:
    hubness, points = fitted(), unit(9, 3)
    before = hubness.correct(points, "image").norm(dim=1)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(5))
    hubness.renumber(order)
    assert torch.allclose(hubness.correct(points[:, order], "image").norm(dim=1), before, rtol=1e-5)
