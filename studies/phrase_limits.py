"""Limits of phrases: how near a picture has to be to a person, an action or a place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hasse.models.captioning.phrases import Phrases
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Points
from hasse.models.score import penalties_between

NEAREST = 0.01  # share of other pictures that may be nearer to a limited phrase


def limits_of(
    phrases: Phrases, pictures: Points, model: Checkpoint, true: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """Return the limits of phrases: (L,).

    Args:
        pictures: (P, N), which show all kinds of things.
        true: (P, L), which limited phrases are known to be true of each picture. Such a picture
            does not count for the phrase.
    """
    points = model.model.encode_captions(phrases.limited)
    penalties = penalties_between(model.model.config.score, pictures, points)
    if true is not None:
        penalties[true] = np.nan
    return np.nanquantile(penalties, NEAREST, axis=0).astype(np.float32)
