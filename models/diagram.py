"""Hasse diagrams of a measured relation between captions.

A measured relation may be neither transitive nor antisymmetric. Its transitive closure is a
preorder. Elements that precede each other both ways form one class. The classes are in order, of
which only the covering pairs are drawn: x below y with nothing between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Relation = NDArray[np.bool_]

# Transitivity repeats each mistake, so a violation has to be clearly within the threshold of
# entailment. At this share of it precision equals recall on the scenes' validation split.
CERTAIN = 0.75
MISSED = 0.12  # share of a caption's pictures that the caption above may be false of


def by_violation(
    violations: NDArray[np.float32], thresholds: NDArray[np.float32] | float
) -> Relation:
    """Return which caption is below which, by the violations between them: (C, C) -> (C, C).

    `thresholds` are those of what may be above, (C,), or one for all.
    """
    return np.asarray(violations <= CERTAIN * thresholds)


def through_pictures(true: NDArray[np.float64]) -> Relation:
    """Return which caption is below which, by how likely each is true of images: (I, C) -> (C, C).

    One is below another if the other is likely true of nearly every image that it is likely true
    of.
    """
    missed = true.T @ (1 - true)
    return np.asarray(missed <= MISSED * np.maximum(true.sum(0), 1e-6)[:, None])


def closure(relation: Relation) -> Relation:
    """Return the smallest reflexive and transitive relation that holds this one: (n, n)."""
    reach = relation | np.eye(len(relation), dtype=np.bool_)
    while True:
        further = reach.astype(np.float32) @ reach.astype(np.float32) > 0
        if (further == reach).all():
            return reach
        reach = further


def classes(preorder: Relation) -> NDArray[np.int64]:
    """Return the class of each element, numbered by first members: (n,)."""
    both = preorder & preorder.T
    _, numbers = np.unique(both.argmax(1), return_inverse=True)
    return numbers.astype(np.int64)


def covering(order: Relation) -> Relation:
    """Return which y lies right above which x in a partial order: (n, n), [x, y]."""
    strict = order & ~np.eye(len(order), dtype=np.bool_)
    between = strict.astype(np.float32) @ strict.astype(np.float32) > 0
    return strict & ~between


def depths(covers: Relation) -> NDArray[np.int64]:
    """Return the length of the longest way from the top down to each element: (n,)."""
    depth = np.zeros(len(covers), np.int64)
    for _ in range(len(covers)):
        below = np.where(covers, depth[None] + 1, 0).max(1, initial=0)
        if (below == depth).all():
            break
        depth = below
    return depth
