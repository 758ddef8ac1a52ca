"""The hierarchy is an order, and every word of it can be shown and said."""

from __future__ import annotations

from hasse.scenes.concepts import (
    ANIMAL_COLOURS,
    CHILDREN,
    IMPLIED_RELATIONS,
    SIZED,
    THING_COLOURS,
    ancestors,
    implied_relations,
    is_a,
    leaves,
)

CONCEPTS = {*CHILDREN, *(child for children in CHILDREN.values() for child in children)}
ROOTS = {"person", "animal", "thing", "outdoors", "indoors"}


def test_no_concept_lies_above_itself() -> None:
    for name, children in CHILDREN.items():
        assert all(not is_a(name, child) for child in children)


def test_every_concept_has_exactly_one_root() -> None:
    for name in CONCEPTS:
        assert len(ROOTS & set(ancestors(name))) == 1


def test_concept_is_the_union_of_its_leaves() -> None:
    for name in CONCEPTS:
        assert leaves(name)
        assert all(is_a(leaf, name) for leaf in leaves(name))


def test_only_leaves_have_colours_and_sizes() -> None:
    for name in (*ANIMAL_COLOURS, *THING_COLOURS, *SIZED):
        assert leaves(name) == (name,)


def test_implied_relations_are_transitive_and_end_in_with() -> None:
    for name in (*IMPLIED_RELATIONS, "walking", "under", "with"):
        implied = implied_relations(name)
        assert implied[0] == name
        assert implied[-1] == "with"
        assert all(set(IMPLIED_RELATIONS.get(other, ())) <= set(implied) for other in implied)
