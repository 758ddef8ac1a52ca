"""Hasse diagrams of a measured relation between captions.

A measured relation may be neither transitive nor antisymmetric. Its transitive closure is a
preorder. Elements that precede each other in both directions form one class. The classes are
partially ordered, and only the covering pairs are drawn: x below y with nothing between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Relation = NDArray[np.bool_]

# Transitivity repeats each mistake, so a violation has to be clearly below the threshold of
# entailment. At this share of it, precision equals recall on the scenes' validation split.
CERTAIN = 0.75
MAX_MISSED = 0.12  # largest share of a caption's pictures that the caption above is false of


def by_violation(
    violations: NDArray[np.float32], thresholds: NDArray[np.float32] | float
) -> Relation:
    """Return which caption is below which, by the violations between them: (C, C) -> (C, C).

    `thresholds` are those of what may be above, (C,), or one for all.
    """
    return np.asarray(violations <= CERTAIN * thresholds)


def by_pictures(true: NDArray[np.float64]) -> Relation:
    """Return which caption is below which, by how likely each is true of images: (I, C) -> (C, C).

    A caption is below another if the other is likely true of nearly all its images.
    """
    missed = true.T @ (1 - true)
    return np.asarray(missed <= MAX_MISSED * np.maximum(true.sum(0), 1e-6)[:, None])


def transitive_closure(relation: Relation) -> Relation:
    """Return the smallest reflexive and transitive relation that contains this one: (n, n)."""
    reach = relation | np.eye(len(relation), dtype=np.bool_)
    while True:
        longer = reach.astype(np.float32) @ reach.astype(np.float32) > 0
        if (longer == reach).all():
            return reach
        reach = longer


def classes(preorder: Relation) -> NDArray[np.int64]:
    """Return the class of each element, numbered by its first member: (n,)."""
    mutual = preorder & preorder.T
    _, numbers = np.unique(mutual.argmax(1), return_inverse=True)
    return numbers.astype(np.int64)


def covering_pairs(order: Relation) -> Relation:
    """Return which y is directly above which x in a partial order: (n, n), [x, y]."""
    strict = order & ~np.eye(len(order), dtype=np.bool_)
    between = strict.astype(np.float32) @ strict.astype(np.float32) > 0
    return strict & ~between


def depths(covers: Relation) -> NDArray[np.int64]:
    """Return the length of the longest path from the top down to each element: (n,)."""
    depth = np.zeros(len(covers), np.int64)
    for _ in range(len(covers)):
        below = np.where(covers, depth[None] + 1, 0).max(1, initial=0)
        if (below == depth).all():
            break
        depth = below
    return depth
