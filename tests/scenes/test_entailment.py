"""Truth is exact: the fast table, the slow definition and entailment agree."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasse.scenes import (
    Entity,
    Relation,
    Scene,
    SceneTable,
    Situation,
    Statement,
    abstract,
    compose,
    describe,
    entails,
    holds,
)

SEEDS = st.integers(0, 2**32)


def scenes(seed: int, count: int) -> list[Scene]:
    rng = Random(seed)
    return [compose(rng) for _ in range(count)]


def said_of(scene: Scene, rng: Random) -> Statement:
    return abstract(scene, rng, rng.randint(1, 7))


def statement(*entities: Entity, relations: tuple[Relation, ...] = ()) -> Statement:
    return Statement(Situation(entities, relations), "")


@given(SEEDS)
@settings(max_examples=60)
def test_table_answers_as_the_definition_does(seed: int) -> None:
    found = scenes(seed, 40)
    table = SceneTable(found)
    rng = Random(seed + 1)
    for scene in found[:10]:
        asked = said_of(scene, rng)
        assert table.holds(asked).tolist() == [holds(asked, each) for each in found]


@given(SEEDS)
@settings(max_examples=60)
def test_what_is_stated_of_a_scene_is_true_of_it(seed: int) -> None:
    (scene,) = scenes(seed, 1)
    rng = Random(seed)
    assert holds(describe(scene, rng), scene)
    assert all(holds(said_of(scene, rng), scene) for _ in range(10))


@given(SEEDS)
@settings(max_examples=80)
def test_entailment_is_reflexive_transitive_and_nests_the_truth(seed: int) -> None:
    found = scenes(seed, 60)
    table = SceneTable(found)
    rng = Random(seed)
    said = [describe(found[0], rng), *(said_of(found[0], rng) for _ in range(8))]
    truth = [table.holds(each) for each in said]
    pairs = {(a, b) for a in range(9) for b in range(9) if entails(said[a], said[b])}
    assert all((a, a) in pairs for a in range(9))
    for a, b in pairs:
        assert not np.any(truth[a] & ~truth[b])
        assert all((a, c) in pairs for d, c in pairs if d == b)


@given(SEEDS)
@settings(max_examples=60)
def test_what_is_not_entailed_has_a_counterexample(seed: int) -> None:
    first, second = scenes(seed, 2)
    rng = Random(seed)
    premise, hypothesis = said_of(first, rng), said_of(second, rng)
    only_the_premise = Scene(premise.situation)
    assert holds(premise, only_the_premise)
    assert entails(premise, hypothesis) == holds(hypothesis, only_the_premise)


WALK = (Relation(0, "walking", 1),)


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        (statement(Entity("poodle")), statement(Entity("animal")), True),
        (statement(Entity("animal")), statement(Entity("poodle")), False),
        (statement(Entity("hen")), statement(Entity("bird")), True),
        (statement(Entity("hen")), statement(Entity("farm animal")), True),
        (statement(Entity("girl", "red")), statement(Entity("person", "red")), True),
        (statement(Entity("girl", "red")), statement(Entity("person", "blue")), False),
        (
            statement(Entity("woman"), Entity("poodle"), relations=WALK),
            statement(Entity("adult", action="walking")),
            True,
        ),
        (
            statement(Entity("woman"), Entity("poodle"), relations=WALK),
            statement(Entity("dog"), Entity("person"), relations=(Relation(0, "with", 1),)),
            True,
        ),
        (
            statement(Entity("woman"), Entity("poodle"), relations=WALK),
            statement(Entity("poodle"), Entity("woman"), relations=WALK),
            False,
        ),
        (
            statement(Entity("man", "red"), Entity("boy", "blue")),
            statement(Entity("person", "red"), Entity("child")),
            True,
        ),
        (statement(Entity("man", "red")), statement(Entity("man"), Entity("adult")), False),
    ],
)
def test_entailment_follows_the_hierarchy_and_the_bindings(
    premise: Statement, hypothesis: Statement, expected: bool
) -> None:
    assert entails(premise, hypothesis) is expected


def test_colour_belongs_to_its_own_bearer() -> None:
    scene = Scene(Situation((Entity("man", "red"), Entity("boy", "blue")), place="park"))
    assert holds(statement(Entity("man", "red")), scene)
    assert not holds(statement(Entity("man", "blue")), scene)
    assert not holds(statement(Entity("boy", "red")), scene)


def test_scene_with_too_many_entities_is_refused() -> None:
    with pytest.raises(ValueError, match="9 entities"):
        SceneTable([Scene(Situation((Entity("man"),) * 9))])
