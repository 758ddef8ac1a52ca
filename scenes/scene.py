"""The meaning of a picture and of a caption: entities, their relations, a place and a sky.

A scene and a statement share one form, a `Situation`. In a scene it is complete: every kind is
a leaf and what is not said is false. In a statement it is partial: it asks for distinct things
that fit, at any level of the hierarchy (an existential conjunction).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hasse.scenes.concepts import (
    IMPLIED_ACTIONS,
    SYMMETRIC,
    TOGETHER,
    ancestors,
    implied_relations,
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, an animal or a thing. `colour` of a person is that of the clothes."""

    kind: str
    colour: str | None = None
    size: str | None = None
    hat: bool = False
    action: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that say something, as JSON values."""
        row: dict[str, Any] = {"kind": self.kind}
        for name in ("colour", "size", "hat", "action"):
            if value := getattr(self, name):
                row[name] = value
        return row


@dataclass(frozen=True, slots=True)
class Relation:
    """`subject` does `name` to `object`: both are positions in `Situation.entities`."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True, slots=True)
class Situation:
    """Entities, the relations between them, a place and a sky; None says nothing about it."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    place: str | None = None
    sky: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the situation as JSON values."""
        row: dict[str, Any] = {"entities": [entity.to_json() for entity in self.entities]}
        if self.relations:
            row["relations"] = [[r.subject, r.name, r.object] for r in self.relations]
        if self.place:
            row["place"] = self.place
        if self.sky:
            row["sky"] = self.sky
        return row

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Situation:
        """Read what `to_json` wrote."""
        return Situation(
            entities=tuple(Entity(**entity) for entity in row["entities"]),
            relations=tuple(Relation(*relation) for relation in row.get("relations", ())),
            place=row.get("place"),
            sky=row.get("sky"),
        )

    def facts(self) -> Facts:
        """Return everything the situation makes true, at all levels of abstraction."""
        actions = [{entity.action} - {None} for entity in self.entities]
        related: set[tuple[int, str, int]] = set()
        for relation in self.relations:
            for name in implied_relations(relation.name):
                related.add((relation.subject, name, relation.object))
                if name in SYMMETRIC:
                    related.add((relation.object, name, relation.subject))
            for index, action in zip(
                (relation.subject, relation.object),
                IMPLIED_ACTIONS.get(relation.name, (None, None)),
                strict=True,
            ):
                if action:
                    actions[index].add(action)
            if relation.name in TOGETHER:
                shared = actions[relation.subject] | actions[relation.object]
                actions[relation.subject] = actions[relation.object] = shared
        features = []
        for entity, doing in zip(self.entities, actions, strict=True):
            everywhere = frozenset(_features_above(entity))
            features.append(everywhere | {f"action:{action}" for action in doing})
        return Facts(tuple(features), frozenset(related), frozenset(self.surroundings(above=True)))

    def surroundings(self, *, above: bool) -> tuple[str, ...]:
        """Return the place and the sky as features, with all places above it if `above`."""
        places: tuple[str, ...] = ()
        if self.place:
            places = ancestors(self.place) if above else (self.place,)
        sky = (f"sky:{self.sky}",) if self.sky else ()
        return (*(f"place:{place}" for place in places), *sky)


@dataclass(frozen=True, slots=True)
class Facts:
    """The closure of a situation: features of each entity, related pairs, surroundings."""

    features: tuple[frozenset[str], ...]
    related: frozenset[tuple[int, str, int]]
    surroundings: frozenset[str]


@cache
def required_features(entity: Entity) -> tuple[str, ...]:
    """Return the features that a described entity must have."""
    found = [f"kind:{entity.kind}"]
    if entity.colour:
        found.append(f"colour:{entity.colour}")
    if entity.size:
        found.append(f"size:{entity.size}")
    if entity.hat:
        found.append("hat")
    if entity.action:
        found.append(f"action:{entity.action}")
    return tuple(found)


@cache
def _features_above(entity: Entity) -> tuple[str, ...]:
    return (*(f"kind:{kind}" for kind in ancestors(entity.kind)), *required_features(entity)[1:])


@dataclass(frozen=True, slots=True)
class Scene:
    """A complete situation and `look`, the seed of everything in the picture it leaves open."""

    situation: Situation
    look: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the scene as JSON values."""
        return {**self.situation.to_json(), "look": self.look}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Scene:
        """Read what `to_json` wrote."""
        return Scene(Situation.from_json(row), row["look"])


@dataclass(frozen=True, slots=True)
class Statement:
    """A partial situation and one English text that says exactly this.

    `full` marks the description of everything in a scene. Equality ignores the text: two
    paraphrases in one order of entities are equal.
    """

    situation: Situation
    text: str = field(compare=False)
    full: bool = field(default=False, compare=False)

    def concepts(self) -> int:
        """Count the concepts named: kinds, attributes, actions, relations, place and sky."""
        return sum(len(required_features(entity)) for entity in self.situation.entities) + len(
            (*self.situation.relations, *self.situation.surroundings(above=False))
        )

    def to_json(self) -> dict[str, Any]:
        """Return the statement as JSON values, with its number of concepts."""
        row = {**self.situation.to_json(), "text": self.text, "concepts": self.concepts()}
        return {**row, "full": True} if self.full else row

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Statement:
        """Read what `to_json` wrote."""
        return Statement(Situation.from_json(row), row["text"], row.get("full", False))
