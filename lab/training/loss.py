"""Losses of a batch: the penalty of a true pair should be lower than that of its false pairs.

All losses take any number of true pairs. A caption counts once: the mean over the images that it
is true of. An image counts once for each of its own captions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus


def ranking_loss(penalty: Tensor, owners: Tensor, true: Tensor, margin: float) -> Tensor:
    """Sum the hinge over true pairs and the contrastive pairs of a batch (Vendrov, equation 5).

    Each image that a caption is true of should have a penalty lower by `margin` than each image
    that it is false of; likewise the captions of an image. With one caption to an image and nothing
    else true, this is the paper's sum over 2 B (B - 1) terms.

    Args:
        penalty: (B, C), image by caption.
        owners: (C,), the row of the image that each caption was written for.
        true: (B, C) of bool: the pairs known to be true, own pairs among them.
        margin: the required distance, in units of the penalty.

    Returns:
        A scalar, at least 0.
    """
    return _both_ways(partial(_hinge_to_false, margin=margin), penalty, owners, true)


def contrastive_loss(
    penalty: Tensor, owners: Tensor, true: Tensor, inverse_temperature: float
) -> Tensor:
    """Sum the cross-entropy of picking each true pair among the false ones beside it.

    Pairs are picked with probability proportional to exp(-inverse_temperature * penalty): InfoNCE
    (van den Oord et al., 2018) over violations instead of cosines. The hinge weighs all false pairs
    within the margin alike; this loss weighs the nearest ones most.

    Args:
        penalty, owners, true: as in `ranking_loss`.
        inverse_temperature: the inverse temperature, in inverse units of the penalty.

    Returns:
        A scalar, at least 0.
    """
    return _both_ways(
        partial(_entropy_to_false, inverse_temperature=inverse_temperature), penalty, owners, true
    )


def _both_ways(
    loss: Callable[[Tensor, Tensor], Tensor], penalty: Tensor, owners: Tensor, true: Tensor
) -> Tensor:
    images = torch.arange(len(penalty), device=owners.device)
    own_counts = (images[:, None] == owners).sum(1)  # captions written for each image
    by_caption = loss(penalty.T, true.T)  # (C,)
    by_image = loss(penalty, true)  # (B,)
    return by_caption.sum() + (own_counts * by_image).sum()


def _hinge_to_false(penalty: Tensor, true: Tensor, margin: float) -> Tensor:
    """Sum max(0, margin + p - q) over the false q of a row, mean over its true p: -> (rows,).

    A hinge is above zero for the false entries below p + margin. A sort and running sums give the
    sum over all of them at once: R log R steps for a row of R, and no R x R table.
    """
    false, _ = penalty.masked_fill(true, torch.inf).contiguous().sort(1)
    threshold = (penalty + margin).contiguous()
    count = torch.searchsorted(false.detach(), threshold.detach())  # false ones below each
    running_sum = false.masked_fill(false.isinf(), 0).cumsum(1)
    running_sum = torch.cat((running_sum.new_zeros(len(running_sum), 1), running_sum), 1)
    hinges = count * threshold - running_sum.gather(1, count)
    return (hinges * true).sum(1) / true.sum(1).clamp(min=1)


def _entropy_to_false(penalty: Tensor, true: Tensor, inverse_temperature: float) -> Tensor:
    """Take log(1 + sum over false q of exp(s (p - q))), mean over true p: -> (rows,)."""
    score = -inverse_temperature * penalty
    # The lowest finite number instead of -inf: a row without a false pair has a gradient, zero.
    false = score.masked_fill(true, torch.finfo(score.dtype).min).logsumexp(1, keepdim=True)
    return (softplus(false - score) * true).sum(1) / true.sum(1).clamp(min=1)
