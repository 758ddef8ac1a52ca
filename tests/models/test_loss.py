from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.loss import ranking_loss


def plain(penalty: Tensor, owners: list[int], true: Tensor, margin: float) -> float:
    total = 0.0
    for caption, image in enumerate(owners):
        own = float(penalty[image, caption])
        for other in range(penalty.shape[1]):
            if not true[image, other]:
                total += max(0.0, margin + own - float(penalty[image, other]))
        for other in range(penalty.shape[0]):
            if not true[other, caption]:
                total += max(0.0, margin + own - float(penalty[other, caption]))
    return total


@pytest.mark.parametrize("owners", [[0, 1, 2, 3], [0, 0, 1, 2, 2, 2, 3]])
def test_the_loss_is_the_papers_sum_over_contrastive_terms(owners: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    penalty = torch.rand(4, len(owners), generator=generator)
    true = torch.rand(4, len(owners), generator=generator) < 0.3
    true[owners, range(len(owners))] = True
    ours = ranking_loss(penalty, torch.tensor(owners), true, 0.3).item()
    assert ours == pytest.approx(plain(penalty, owners, true, 0.3), rel=1e-5)


def test_pairs_far_enough_apart_cost_nothing() -> None:
    own = torch.eye(4, dtype=torch.bool)
    assert ranking_loss(1 - torch.eye(4), torch.arange(4), own, margin=0.9).item() == 0


def test_a_true_pair_is_not_contrastive() -> None:
    penalty = torch.full((2, 2), 0.5)
    true = torch.tensor([[True, True], [False, True]])
    # Of the four contrastive terms, the two of (image 0, caption 1) are dropped.
    loss = ranking_loss(penalty, torch.arange(2), true, 0.1)
    assert loss.item() == pytest.approx(0.2)
