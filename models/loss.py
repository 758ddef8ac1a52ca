"""The pairwise ranking loss (Vendrov et al., equation 5)."""

from __future__ import annotations

import torch
from torch import Tensor


def ranking_loss(penalty: Tensor, margin: float, true: Tensor | None = None) -> Tensor:
    """Sum the hinge over all contrastive captions and images of a batch.

    Each true pair is to have a penalty lower by `margin` than its image has with any other
    caption, and than its caption has with any other image.

    Args:
        penalty: (B, B), image by caption, the true pairs on the diagonal.
        margin: the distance demanded, in units of the penalty.
        true: (B, B) of bool: pairs off the diagonal that are known to be true as well, and so
            are not contrastive. A general caption is true of many images of a batch.

    Returns:
        A scalar, at least 0.
    """
    own = penalty.diagonal()
    captions = (margin + own[:, None] - penalty).clamp(min=0)  # image fixed, captions vary
    images = (margin + own[None, :] - penalty).clamp(min=0)  # caption fixed, images vary
    excluded = torch.eye(len(penalty), dtype=torch.bool, device=penalty.device)
    if true is not None:
        excluded = excluded | true
    return (captions + images).masked_fill(excluded, 0).sum()
