"""Phrases for the tiny model, which write captions for any picture."""

from __future__ import annotations

import numpy as np

from hasse.models.captioning.phrases import Phrases, save
from hasse.models.checkpoints.checkpoint import Checkpoint

PHRASES = Phrases(
    people=tuple(
        f"a {colour}{noun}"
        for noun in ("child", "person", "dog", "cat", "animal")
        for colour in ("", "red ", "blue ")
    ),
    things=(),
    general=(),
    actions=(),
    places=("in the park",),
)


def make_phrases(model: Checkpoint, limit: float = 9.0) -> None:
    """Write phrases into the folder of a model, all with one limit.

    Any violation is below the limit, unless it is given.
    """
    save(PHRASES, np.full(len(PHRASES.limited), limit, np.float32), model)
