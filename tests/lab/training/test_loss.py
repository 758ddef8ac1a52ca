from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hasse.lab.training.loss import contrastive_loss, ranking_loss

Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]
OWNERS = [[0, 1, 2, 3], [0, 0, 1, 2, 2, 2, 3]]


def batch(owners: list[int], share_true: float = 0.3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    penalty = torch.rand(4, len(owners), generator=generator, dtype=torch.double)
    true = torch.rand(4, len(owners), generator=generator) < share_true
    true[owners, range(len(owners))] = True
    return penalty, true


def both_ways(
    term: Callable[[Tensor, Tensor], Tensor], penalty: Tensor, owners: list[int], true: Tensor
) -> Tensor:
    """Add up the terms of all captions, and of each image as often as it has a caption."""
    total = penalty.new_zeros(())
    for image in range(penalty.shape[0]):
        if owners.count(image):
            total = total + owners.count(image) * term(penalty[image], true[image])
    for caption in range(penalty.shape[1]):
        total = total + term(penalty[:, caption], true[:, caption])
    return total


def plain(penalty: Tensor, owners: list[int], true: Tensor, margin: float) -> Tensor:
    def hinges(row: Tensor, good: Tensor) -> Tensor:
        terms = (margin + row[good][:, None] - row[~good][None]).clamp(min=0)
        return terms.sum() / good.sum()

    return both_ways(hinges, penalty, owners, true)


@pytest.mark.parametrize("owners", OWNERS)
def test_the_loss_and_its_gradient_are_those_of_all_the_terms(owners: list[int]) -> None:
    penalty, true = batch(owners)
    penalty.requires_grad_()
    ours = ranking_loss(penalty, torch.tensor(owners), true, 0.3)
    expected = plain(penalty, owners, true, 0.3)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(
        torch.autograd.grad(ours, penalty), torch.autograd.grad(expected, penalty)
    )


def test_with_one_caption_an_image_it_is_the_papers_sum() -> None:
    penalty = batch(OWNERS[0])[0]
    own = torch.eye(4, dtype=torch.bool)
    expected = 0.0
    for a in range(4):
        for b in range(4):
            if a != b:
                expected += max(0.0, 0.2 + float(penalty[a, a] - penalty[a, b]))
                expected += max(0.0, 0.2 + float(penalty[a, a] - penalty[b, a]))
    assert ranking_loss(penalty, torch.arange(4), own, 0.2).item() == pytest.approx(expected)


def test_pairs_far_enough_apart_cost_nothing() -> None:
    own = torch.eye(4, dtype=torch.bool)
    assert ranking_loss(1 - torch.eye(4), torch.arange(4), own, 0.9).item() == 0


@pytest.mark.parametrize("loss", [ranking_loss, contrastive_loss])
def test_an_image_without_captions_asks_for_nothing(loss: Loss) -> None:
    penalty, _ = batch(OWNERS[0])
    penalty, own = penalty[:, :3], torch.eye(4, dtype=torch.bool)[:, :3]
    penalty[3] = 100  # far from all captions
    alone = loss(penalty[:3], torch.arange(3), own[:3], 0.3)
    torch.testing.assert_close(loss(penalty, torch.arange(3), own, 0.3), alone)


@pytest.mark.parametrize("owners", OWNERS)
def test_the_contrastive_loss_is_the_cross_entropy_of_each_true_pair(owners: list[int]) -> None:
    penalty, true = batch(owners)

    def entropy(row: Tensor, good: Tensor) -> Tensor:
        """Pick each true entry among the false ones, itself added to them."""
        choices = [torch.cat((one[None], row[~good])) for one in row[good]]
        picked = [-torch.log_softmax(-7 * entries, 0)[0] for entries in choices]
        return torch.stack(picked).mean()

    expected = both_ways(entropy, penalty, owners, true)
    ours = contrastive_loss(penalty, torch.tensor(owners), true, inverse_temperature=7)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("loss", [ranking_loss, contrastive_loss])
@pytest.mark.parametrize("owners", OWNERS)
def test_a_batch_in_which_all_is_true_costs_nothing_and_pulls_nowhere(
    loss: Loss, owners: list[int]
) -> None:
    penalty, _ = batch(owners)
    penalty.requires_grad_()
    everything = torch.ones_like(penalty, dtype=torch.bool)
    lost = loss(penalty, torch.tensor(owners), everything, 0.3)
    lost.backward()  # type: ignore[no-untyped-call]
    assert lost.item() == 0
    assert penalty.grad is not None
    assert not penalty.grad.any()
