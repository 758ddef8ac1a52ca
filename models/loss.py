"""The pairwise ranking loss (Vendrov et al., equation 5), for any number of true pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def ranking_loss(penalty: Tensor, owners: Tensor, true: Tensor, margin: float) -> Tensor:
    """Sum the hinge over true pairs and the contrastive pairs of a batch.

    Every image a caption is true of is to have a penalty lower by `margin` than every image it
    is false of; likewise the captions of an image. A caption counts once however many images it
    is true of (the mean over them is taken), and an image once for each of its own captions.
    With one caption to an image and nothing else true, this is the paper's sum over
    2 B (B - 1) terms.

    Args:
        penalty: (B, C), image by caption.
        owners: (C,), the row of the image that each caption was written for.
        true: (B, C) of bool: the pairs known to be true, own pairs among them.
        margin: the distance demanded, in units of the penalty.

    Returns:
        A scalar, at least 0.
    """
    own = torch.bincount(owners, minlength=len(penalty))  # captions written for each image
    caption_fixed = _hinge_to_false(penalty.T, true.T, margin)  # (C,)
    image_fixed = _hinge_to_false(penalty, true, margin)  # (B,)
    return caption_fixed.sum() + (own * image_fixed).sum()


def _hinge_to_false(penalty: Tensor, true: Tensor, margin: float) -> Tensor:
    """Sum max(0, margin + p - q) over the false q of a row, mean over its true p: -> (rows,).

    A hinge is open for the false entries below p + margin, so a sort and running sums give the
    sum over all of them at once: R log R steps for a row of R, and no R x R table.
    """
    false, _ = penalty.masked_fill(true, torch.inf).contiguous().sort(1)
    open_below = (penalty + margin).contiguous()
    count = torch.searchsorted(false.detach(), open_below.detach())  # false ones below each
    running = false.masked_fill(false.isinf(), 0).cumsum(1)
    running = torch.cat((running.new_zeros(len(running), 1), running), 1)
    hinges = count * open_below - running.gather(1, count)
    return (hinges * true).sum(1) / true.sum(1).clamp(min=1)
