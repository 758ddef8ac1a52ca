from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hasse.models.diagram import (
    CERTAIN,
    Relation,
    by_pictures,
    by_violation,
    classes,
    covering_pairs,
    depths,
    transitive_closure,
)


def relation(seed: int, count: int) -> Relation:
    return np.random.default_rng(seed).random((count, count)) < 1.5 / count


@given(seed=st.integers(0, 10_000), count=st.integers(1, 12))
def test_the_covering_pairs_give_back_the_order_and_none_can_be_spared(
    seed: int, count: int
) -> None:
    preorder = transitive_closure(relation(seed, count))
    _, first = np.unique(classes(preorder), return_index=True)
    order = preorder[np.ix_(first, first)]
    covers = covering_pairs(order)
    assert (transitive_closure(covers) == order).all()
    for x, y in np.argwhere(covers):
        fewer = covers.copy()
        fewer[x, y] = False
        assert not transitive_closure(fewer)[x, y]


@given(seed=st.integers(0, 10_000), count=st.integers(1, 12))
def test_a_class_is_what_precedes_each_other_both_ways(seed: int, count: int) -> None:
    preorder = transitive_closure(relation(seed, count))
    number = classes(preorder)
    assert ((number[:, None] == number[None]) == (preorder & preorder.T)).all()


def test_depths_are_the_longest_ways_from_the_top() -> None:
    order = transitive_closure(
        np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]], np.bool_)
    )
    assert depths(covering_pairs(order)).tolist() == [2, 1, 0, 1]


def test_by_violation_puts_clear_entailments_above() -> None:
    violations = np.array([[0, 0.5 * CERTAIN], [0.5, 0]], np.float32)
    assert by_violation(violations, 0.5).tolist() == [[True, True], [False, True]]


def test_through_pictures_puts_captions_true_of_nearly_all_pictures_above() -> None:
    poodle, dog, cat = np.zeros((3, 40))
    poodle[:10] = dog[1:30] = cat[30:] = 1  # one picture of ten is missed
    relation = by_pictures(np.stack([poodle, dog, cat], axis=1))
    assert relation.tolist() == [[True, True, False], [False, True, False], [False, False, True]]
