"""How a model compares an image with a caption: a penalty, lower is better.

`order` is the paper's choice, E(image, caption): captions are more general than the images they
describe. `order-reversed` puts images above captions, and `cosine` is symmetric; both are the
paper's controls (Table 2). The score is a property of a checkpoint: its encoders were trained for
it.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasse.models.order import pairwise_violation

Score = Literal["order", "order-reversed", "cosine"]
SCORES: tuple[Score, ...] = get_args(Score)


def penalties(score: Score, images: Tensor, captions: Tensor) -> Tensor:
    """Return every image's penalty with every caption: (I, N), (C, N) -> (I, C).

    The order scores lie in [0, inf). Cosine is 1 - x.y, which is in [0, 2] for unit points.
    """
    if score == "order":
        return pairwise_violation(images, captions)
    if score == "order-reversed":
        return pairwise_violation(captions, images).T
    return 1 - images @ captions.T


def penalties_between(
    score: Score, images: NDArray[np.float32], captions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return `penalties` of numpy arrays, without gradients: (I, N), (C, N) -> (I, C)."""
    found: NDArray[np.float32] = penalties(
        score, torch.from_numpy(images), torch.from_numpy(captions)
    ).numpy()
    return found
