"""Hubness correction gives each point the length of the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from hasse.lab.encoders.hubness_weights import HubnessWeights
from hasse.models.encoders.hubness import SHARE, SPREADS, HubnessCorrection, Kind
from hasse.models.score import SCORES, Score, penalties_between

KINDS: tuple[Kind, Kind] = ("image", "caption")
INVERSE_TEMPERATURE = 20.0


def unit(count: int, seed: int, score: Score = "order", dimension: int = 24) -> Tensor:
    drawn = torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed))
    return normalize(drawn if score == "cosine" else drawn.abs(), dim=1)


def weights(score: Score = "order", size: int = 40) -> HubnessWeights:
    hubness = HubnessWeights(size, 24, score)
    hubness.fit(unit(90, 1, score), unit(90, 2, score), INVERSE_TEMPERATURE)
    return hubness


def corrected(hubness: HubnessWeights, points: Tensor, kind: Kind) -> Tensor:
    correction = hubness.correction()
    assert isinstance(correction, HubnessCorrection)
    return torch.from_numpy(correction.correct(points.numpy(), kind))


def biases(hubness: HubnessWeights, points: Tensor, kind: Kind) -> NDArray[np.float64]:
    """The definition, in float64."""
    images, captions = (points, hubness.captions) if kind == "image" else (hubness.images, points)
    penalty = penalties_between(hubness.score, images.numpy(), captions.numpy()).astype(np.float64)
    shares = np.exp(-INVERSE_TEMPERATURE * penalty).mean(1 if kind == "image" else 0)
    found: NDArray[np.float64] = -np.log(shares) / INVERSE_TEMPERATURE
    return found


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_the_definition(score: Score, kind: Kind) -> None:
    hubness, points = weights(score), unit(200, 3, score)
    seen = unit(90, 1 + KINDS.index(kind), score)[40:]
    others = biases(hubness, seen, kind)
    mean, spread = others.mean(), others.std(ddof=1)
    longer, shorter = (biases(hubness, seen * factor, kind) for factor in (1.05, 1 / 1.05))
    slope = (longer - shorter).mean() / (2 * np.log(1.05))
    beyond = np.clip(biases(hubness, points, kind) - mean, -SPREADS * spread, SPREADS * spread)
    assert np.abs(beyond).max() == pytest.approx(SPREADS * spread)  # some are as far as may be
    expected = np.exp(-SHARE * beyond / slope)
    found = corrected(hubness, points, kind)
    assert found.norm(dim=1).numpy() == pytest.approx(expected, rel=1e-4)
    assert normalize(found, dim=1).numpy() == pytest.approx(points.numpy(), abs=1e-6)


def test_a_hub_gets_shorter_as_an_image_and_longer_as_a_caption() -> None:
    hubness = weights()
    hub = normalize(torch.ones(1, 24), dim=1)
    assert corrected(hubness, hub, "image").norm() < 0.97
    assert corrected(hubness, hub, "caption").norm() > 1.01
    lonely = torch.eye(24)[:1]
    assert corrected(hubness, lonely, "image").norm() > 1.03
    assert corrected(hubness, lonely, "caption").norm() < 0.99


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_biases_spread_less_after_the_correction(score: Score, kind: Kind) -> None:
    hubness = HubnessWeights(40, 24, score)
    hubness.fit(unit(90, 1), unit(90, 2), INVERSE_TEMPERATURE)
    points = unit(200, 3)
    before = biases(hubness, points, kind).std()
    assert biases(hubness, corrected(hubness, points, kind), kind).std() < 0.6 * before


def test_there_is_no_correction_before_fit() -> None:
    assert HubnessWeights(40, 24, "order").correction() is None
    assert corrected(weights(), unit(5, 3)[:0], "image").shape == (0, 24)


@pytest.mark.parametrize("kind", KINDS)
def test_a_length_has_the_same_bits_whatever_is_beside_it(kind: Kind) -> None:
    hubness, points = weights(size=70), unit(33, 3)
    together = corrected(hubness, points, kind)
    alone = torch.cat([corrected(hubness, point[None], kind) for point in points])
    assert torch.equal(together, alone)


def test_a_new_order_of_coordinates_changes_no_length() -> None:
    hubness, points = weights(), unit(9, 3)
    before = corrected(hubness, points, "image").norm(dim=1)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(5))
    hubness.renumber(order)
    assert torch.allclose(
        corrected(hubness, points[:, order], "image").norm(dim=1), before, rtol=1e-5
    )
