"""The pairwise ranking loss (Vendrov et al., equation 5)."""

from __future__ import annotations

from torch import Tensor


def ranking_loss(penalty: Tensor, owners: Tensor, true: Tensor, margin: float) -> Tensor:
    """Sum the hinge over all contrastive captions and images of a batch.

    Each caption and the image it was written for are to have a penalty lower by `margin` than
    the image has with any other caption, and than the caption has with any other image.

    Args:
        penalty: (B, C), image by caption.
        owners: (C,), the row of the image that each caption was written for.
        true: (B, C) of bool: pairs known to be true, which are therefore not contrastive; each
            caption's own image among them. A general caption is true of many images.
        margin: the distance demanded, in units of the penalty.

    Returns:
        A scalar, at least 0. With one caption to an image and no truth beyond the own pairs it
        is the paper's sum over 2 B (B - 1) terms.
    """
    own = penalty.gather(0, owners[None])[0]  # (C,)
    images = (margin + own - penalty).clamp(min=0).masked_fill(true, 0)  # caption fixed: (B, C)
    # Image fixed: each own pair against each caption that is false of its image, (C, C).
    captions = (margin + own[:, None] - penalty[owners]).clamp(min=0)
    return images.sum() + captions.masked_fill(true[owners], 0).sum()
