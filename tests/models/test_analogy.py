from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from hasse.models import analogy
from hasse.models.analogy import (
    MAX_REWORDED,
    STEP_AWAY,
    feedback_point,
    is_single_word,
    reword_captions,
)
from hasse.models.order import join, precedes
from hasse.models.score import SCORES, Score


def points(seed: int, count: int) -> torch.Tensor:
    raw = torch.rand(count, 12, generator=torch.Generator().manual_seed(seed))
    return normalize(raw, dim=1)


def substitute(
    score: Score, *points: torch.Tensor, rest_weight: float = analogy.REST_WEIGHT
) -> torch.Tensor:
    like, plus, minus = (each.numpy() for each in points)
    return torch.from_numpy(analogy.substitute(score, like, plus, minus, rest_weight))


@given(seed=st.integers(0, 10_000), count=st.integers(1, 3))
def test_substitute_contains_all_of_plus(seed: int, count: int) -> None:
    like, plus, minus = points(seed, 1)[0], points(seed + 1, count), points(seed + 2, 2)
    composed = substitute("order", like, plus, minus)
    assert precedes(composed.numpy(), plus.numpy()).all()
    assert (composed >= 0).all()


@given(seed=st.integers(0, 10_000))
def test_substitute_without_minus_is_the_join(seed: int) -> None:
    like, plus = points(seed, 1)[0], points(seed + 1, 1)
    assert torch.equal(substitute("order", like, plus, plus[:0]), torch.maximum(like, plus[0]))


@given(seed=st.integers(0, 10_000))
def test_substitute_lowers_coordinates_of_minus_to_those_of_plus(seed: int) -> None:
    like, plus, minus = points(seed, 3)
    composed = substitute("order", like, plus[None], minus[None])
    gone = minus >= like
    assert torch.equal(composed[gone], plus[gone])
    assert precedes(join(like.numpy(), plus.numpy()), composed.numpy())


def test_substitute_in_reversed_order_is_mirrored() -> None:
    like, plus, minus = points(0, 1)[0], points(1, 2), points(2, 2)
    composed = substitute("order-reversed", like, plus, minus)
    assert (composed <= plus + 1e-6).all()
    assert (composed >= 0).all()


def test_substitute_keeps_a_share_of_the_rest() -> None:
    like, plus = torch.tensor([0.9, 0.6, 0.5, 0.2]), torch.tensor([[0.1, 0.3, 0.0, 0.1]])
    minus = torch.tensor([[0.4, 0.2, 0.0, 0.1], [0.5, 0.1, 0.0, 0.6]])
    found = substitute("order", like, plus, minus, rest_weight=0.5)
    torch.testing.assert_close(found, torch.tensor([0.2, 0.3, 0.25, 0.1]))
    for put, taken in ((plus, minus + 0.2), (plus + 0.2, minus)):  # 0 is in one of them alone
        composed = substitute("order-reversed", 1 - like, 1 - put, 1 - taken, rest_weight=0.5)
        torch.testing.assert_close(
            1 - composed, substitute("order", like, put, taken, rest_weight=0.5)
        )


@pytest.mark.parametrize("score", SCORES)
def test_substitute_of_a_point_for_itself_changes_nothing(score: Score) -> None:
    like = points(3, 1)[0]
    composed = substitute(score, like, like[None], like[None])
    assert torch.allclose(composed, like, atol=1e-6)


def test_reworded_replaces_a_word_in_the_shortest_captions() -> None:
    captions = [
        "A blue ball, on a beach.",
        "a blue ball",
        "there is a blueberry",
        "A blue toy",
        "a blueberry blue",
        "a Blue ball!",
    ]
    assert reword_captions(captions, "blue", "Red") == {
        "a blue ball": "a red ball",
        "a blue toy": "a red toy",
        "a blueberry blue": "a blueberry red",
    }
    assert reword_captions(captions, "green", "red") == {}
    assert len(reword_captions([f"blue {at}" for at in range(99)], "blue", "red")) == MAX_REWORDED


@pytest.mark.parametrize(("text", "bare"), [("Red!", True), ("a ball", False), ("?", False)])
def test_is_bare_is_true_of_one_word(text: str, bare: bool) -> None:
    assert is_single_word(text) is bare


def test_substitute_with_cosine_has_unit_length() -> None:
    points = normalize(torch.randn(3, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    found = substitute("cosine", points[0], points[1:2], points[2:])
    torch.testing.assert_close(found.norm(), torch.tensor(1.0))


def test_feedback_point_is_the_middle_moved_away_from_the_others() -> None:
    similar = np.array([[1, 4, 0], [3, 0, 1]], np.float32)
    others = np.array([[0, 2, 9]], np.float32)
    assert feedback_point("order", similar, others[:0]).tolist() == [2, 2, 0.5]
    assert feedback_point("order", similar, others).tolist() == [2 + 2 * STEP_AWAY, 2, 0]
    assert np.linalg.norm(feedback_point("cosine", similar, others)) == pytest.approx(1)


def test_substitute_with_minus_alone_takes_it_out() -> None:
    like, minus = torch.tensor([3.0, 1.0]), torch.tensor([[2.0, 2.0]])
    assert torch.equal(substitute("order", like, minus[:0], minus), torch.tensor([1.0, 0.0]))
