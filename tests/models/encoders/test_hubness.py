"""A hub gets the length that keeps it off, all else nearly its own, and nothing the last word."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from models.encoders import hubness as crowd_module
from models.encoders.hubness import SHARE, SPREADS, Crowd, Kind
from models.score import SCORES, Score, penalties_between

KINDS: tuple[Kind, Kind] = ("image", "caption")
SHARPNESS = 20.0


def unit(count: int, seed: int, score: Score = "order", dimension: int = 24) -> Tensor:
    drawn = torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed))
    return normalize(drawn if score == "cosine" else drawn.abs(), dim=1)


def gathered(score: Score = "order", size: int = 40) -> Crowd:
    crowd = Crowd(size, 24, score)
    crowd.gather(unit(90, 1, score), unit(90, 2, score), SHARPNESS)
    return crowd


def nearness(crowd: Crowd, points: Tensor, kind: Kind) -> NDArray[np.float64]:
    """The definition, in float64."""
    images, captions = (points, crowd.captions) if kind == "image" else (crowd.images, points)
    penalty = penalties_between(crowd.score, images.numpy(), captions.numpy()).astype(np.float64)
    shares = np.exp(-SHARPNESS * penalty).mean(1 if kind == "image" else 0)
    found: NDArray[np.float64] = -np.log(shares) / SHARPNESS
    return found


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_the_definition(score: Score, kind: Kind) -> None:
    crowd, points = gathered(score), unit(200, 3, score)
    seen = unit(90, 1 + KINDS.index(kind), score)[40:]
    others = nearness(crowd, seen, kind)
    mean, spread = others.mean(), others.std(ddof=1)
    longer, shorter = (nearness(crowd, seen * factor, kind) for factor in (1.05, 1 / 1.05))
    slope = (longer - shorter).mean() / (2 * np.log(1.05))
    beyond = np.clip(nearness(crowd, points, kind) - mean, -SPREADS * spread, SPREADS * spread)
    assert np.abs(beyond).max() == pytest.approx(SPREADS * spread)  # some are as far as may be
    expected = np.exp(-SHARE * beyond / slope)
    found = crowd.even(points, kind)
    assert found.norm(dim=1).numpy() == pytest.approx(expected, rel=1e-4)
    assert normalize(found, dim=1).numpy() == pytest.approx(points.numpy(), abs=1e-6)


def test_an_image_that_is_near_to_all_gets_shorter_and_a_caption_longer() -> None:
    crowd = gathered()
    hub = normalize(torch.ones(1, 24), dim=1)
    assert crowd.even(hub, "image").norm() < 0.97
    assert crowd.even(hub, "caption").norm() > 1.01
    lonely = torch.eye(24)[:1]
    assert crowd.even(lonely, "image").norm() > 1.03
    assert crowd.even(lonely, "caption").norm() < 0.99


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_points_differ_less_in_how_near_they_are_to_others(score: Score, kind: Kind) -> None:
    crowd = Crowd(40, 24, score)
    crowd.gather(unit(90, 1), unit(90, 2), SHARPNESS)
    points = unit(200, 3)
    before = nearness(crowd, points, kind).std()
    assert nearness(crowd, crowd.even(points, kind), kind).std() < 0.6 * before


def test_without_a_crowd_points_stay_as_they_are() -> None:
    points = unit(5, 3)
    assert torch.equal(Crowd(40, 24, "order").even(points, "image"), points)
    assert gathered().even(points[:0], "image").shape == (0, 24)


@pytest.mark.parametrize("kind", KINDS)
def test_a_length_is_the_same_bits_whatever_is_beside_it(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd, points = gathered(size=70), unit(33, 3)
    together = crowd.even(points, kind)
    alone = torch.cat([crowd.even(point[None], kind) for point in points])
    assert torch.equal(together, alone)
    monkeypatch.setattr(crowd_module, "_BLOCK", 7)
    assert torch.equal(crowd.even(points, kind), together)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_that_is_laid_out_gives_the_same_bits(score: Score, kind: Kind) -> None:
    crowd, points = gathered(score), unit(7, 3, score)
    before = [crowd.even(some, kind) for some in (points, points[:1], points[:5])]
    crowd.for_inference()
    for some, expected in zip((points, points[:1], points[:5]), before, strict=True):
        assert torch.equal(crowd.even(some, kind), expected)


def test_a_new_order_of_coordinates_changes_no_length() -> None:
    crowd, points = gathered(), unit(9, 3)
    before = crowd.even(points, "image").norm(dim=1)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(5))
    crowd.renumber(order)
    assert torch.allclose(crowd.even(points[:, order], "image").norm(dim=1), before, rtol=1e-5)
