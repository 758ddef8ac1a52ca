"""The concepts that a model puts above one, from specific to general."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hasse.studies.hypernyms.checkpoint import HypernymCheckpoint


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A concept that is learned to be above another.

    Attributes:
        concept: its number in the taxonomy.
        violation: the penalty of the pair.
        known: whether the hierarchy says so too.
    """

    concept: int
    violation: float
    known: bool


def ancestors(checkpoint: HypernymCheckpoint, concept: int, k: int) -> list[Ancestor]:
    """Return the k concepts likeliest above one, those below the threshold, the general last.

    For the order it is a linear extension of what was learned: no concept comes before one that
    it is above. Symmetric comparisons know no general and specific; theirs come by penalty.
    """
    model, taxonomy = checkpoint.model, checkpoint.taxonomy
    penalty = model.penalties_above(concept).astype(np.float64)
    penalty[concept] = np.inf
    likeliest = np.argsort(penalty, kind="stable")[:k]
    likeliest = likeliest[penalty[likeliest] < checkpoint.threshold]
    if model.comparison == "order":
        depth = model.depth()
        likeliest = likeliest[np.argsort(-depth[likeliest], kind="stable")]
    known = taxonomy.ancestors(concept)
    return [Ancestor(int(at), float(penalty[at]), int(at) in known) for at in likeliest]
