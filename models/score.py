"""The penalty of an image with a caption by a model's score; lower is better.

`order` is the paper's choice, E(image, caption): captions are more general than the images they
describe. `order-reversed` puts images above captions, and `cosine` is symmetric; both are the
paper's controls (Table 2). The score is a property of a checkpoint: its encoders are trained for
it.

Functions import numba themselves, because an index needs only the names of scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hasse.models.order import violation

Score = Literal["order", "order-reversed", "cosine"]
SCORES: tuple[Score, ...] = get_args(Score)

# The more general of the two, the y of E(x, y); the cosine has no direction.
MORE_GENERAL: Mapping[Score, Literal["image", "caption"] | None] = {
    "order": "caption",
    "order-reversed": "image",
    "cosine": None,
}


def penalties_between(
    score: Score, images: NDArray[np.float32], captions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return every image's penalty with every caption: (I, N), (C, N) -> (I, C).

    Those of the order scores are in [0, inf). That of the cosine is 1 - x.y, in [0, 2].
    """
    from hasse.models.kernels.cpu_violations import violations

    general = MORE_GENERAL[score]
    if general is None:
        return np.float32(1) - images @ captions.T
    images, captions = (np.ascontiguousarray(points, np.float32) for points in (images, captions))
    return violations(images, captions) if general == "caption" else violations(captions, images).T


def penalties_of(
    score: Score, image: NDArray[np.float32], captions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the penalties of an image (N,) with captions (C, N), without compiled kernels: (C,).

    The bits of a penalty do not depend on the other captions.
    """
    general = MORE_GENERAL[score]
    if general is None:
        cosines: NDArray[np.float32] = np.einsum("n,cn->c", image, captions)
        return 1 - cosines
    return violation(image, captions) if general == "caption" else violation(captions, image)
