from __future__ import annotations

import torch

from models.loss import ranking_loss


def plain(penalty: torch.Tensor, margin: float) -> float:
    total = 0.0
    for own in range(len(penalty)):
        for other in range(len(penalty)):
            if other != own:
                total += max(0.0, margin + float(penalty[own, own] - penalty[own, other]))
                total += max(0.0, margin + float(penalty[own, own] - penalty[other, own]))
    return total


def test_the_loss_is_the_papers_sum_over_contrastive_terms() -> None:
    penalty = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ranking_loss(penalty, 0.3).item(), plain(penalty, 0.3))


def test_pairs_far_enough_apart_cost_nothing() -> None:
    assert ranking_loss(1 - torch.eye(4), margin=0.9).item() == 0


def test_a_true_pair_off_the_diagonal_is_not_contrastive() -> None:
    penalty = torch.full((2, 2), 0.5)
    true = torch.tensor([[False, True], [False, False]])
    # Of the four terms of the off-diagonal pairs, those of (image 0, caption 1) are dropped.
    torch.testing.assert_close(ranking_loss(penalty, 0.1, true).item(), 0.2)
