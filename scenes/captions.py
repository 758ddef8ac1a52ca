"""Write true statements about a scene, from everything down to one concept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from hasse.scenes.composing import compose
from hasse.scenes.concepts import (
    IMPLIED_ACTIONS,
    SCENERY,
    SIZED,
    SYMMETRIC,
    TOGETHER,
    ancestors,
    implied_relations,
    is_a,
    leaves,
)
from hasse.scenes.scene import Entity, Relation, Scene, Situation, Statement
from hasse.scenes.wording import write

# How many concepts each of the five captions of a scene names; None is everything.
LEVELS: tuple[tuple[int, ...] | None, ...] = (None, (3, 4), (2, 3), (2,), (1, 2))
# Eight colours share what is said of colour, so it is said more often than other attributes.
_COLOUR_WEIGHT = 5.0
_SIZED_KINDS = (*SIZED, "dog")
_BUSY = ("holding", "reading", "flying")  # said without saying that somebody stands
_VAGUE = {"thing": 0.4}
_STILL = ("furniture", "tree", "vehicle", "snowman")


def captions(scene: Scene, rng: Random) -> tuple[Statement, ...]:
    """Return five statements true of a scene, of distinct texts, from full to general."""
    found: list[Statement] = []
    for level in LEVELS:
        if level is None:
            found.append(describe(scene, rng))
            continue
        while True:
            statement = abstract(scene, rng, rng.choice(level))
            if all(statement != other and statement.text != other.text for other in found):
                found.append(statement)
                break
    return tuple(found)


def describe(scene: Scene, rng: Random) -> Statement:
    """Return the full description of a scene: everything that the rest of it does not imply."""
    whole = scene.situation
    idle = {relation.object for relation in whole.relations}
    idle |= {r.subject for r in whole.relations if r.name in _BUSY}
    shown: list[Entity] = []
    for index, entity in enumerate(whole.entities):
        standing = entity.action == "standing" and index in idle
        told = any(
            (relation.subject, relation.object)[side] == index
            and IMPLIED_ACTIONS.get(relation.name, (None, None))[side] == entity.action
            for relation in whole.relations
            for side in (0, 1)
        ) or any(r.object == index and r.name in TOGETHER for r in whole.relations)
        shown.append(replace(entity, action=None) if standing or told else entity)
    if SCENERY.get(whole.place or "") == whole.entities[-1].kind:
        shown.pop()
    situation = replace(whole, entities=tuple(shown))
    return Statement(situation, write(situation, rng), full=True)


def abstract(scene: Scene, rng: Random, concepts: int) -> Statement:
    """Return a statement true of a scene, of at most so many concepts at random levels."""
    draft = _Draft(scene.situation, rng)
    draft.start(concepts)
    while (left := concepts - draft.count) > 0:
        steps, weights = draft.steps(left)
        if not steps:
            break
        rng.choices(steps, weights)[0]()
    situation = draft.situation()
    return Statement(situation, write(situation, rng))


def sample_statements(rng: Random, count: int, concepts: int) -> list[Statement]:
    """Return up to `count` statements of exactly so many concepts, no two alike.

    Each is true of some scene that can be composed. Fewer come back when the language has no
    more: there are under a hundred statements of one concept.
    """
    found: dict[Situation, Statement] = {}
    idle = 0
    while len(found) < count and idle < 2000:
        statement = abstract(compose(rng), rng, concepts)
        idle += 1
        if statement.concepts() == concepts and statement.situation not in found:
            found[statement.situation] = statement
            idle = 0
    return list(found.values())


@dataclass(slots=True)
class _Draft:
    """A statement in the making: which entities of the scene it names, and what of them."""

    scene: Situation
    rng: Random
    count: int = 0
    chosen: dict[int, Entity] = field(default_factory=dict)
    links: list[Relation] = field(default_factory=list)  # between positions in the scene
    place: str | None = None
    sky: str | None = None

    def start(self, concepts: int) -> None:
        """Begin with an entity, or rarely with the place or the sky."""
        roll = self.rng.random()
        if roll < (0.16 if concepts == 1 else 0.05):
            self._set_place()
        elif roll < (0.2 if concepts == 1 else 0.06) and self.scene.sky:
            self._set_sky()
        else:
            self._name(self.rng.randrange(len(self.scene.entities)))

    def steps(self, left: int) -> tuple[list[Callable[[], None]], list[float]]:
        """Return the ways to say more within `left` concepts, and their weights."""
        ways: list[tuple[Callable[[], None], float]] = []
        if self.place is None:
            ways.append((self._set_place, 1.4))
        if self.sky is None and self.scene.sky:
            ways.append((self._set_sky, 0.8))
        objects = {link.object for link in self.links}
        subjects = [index for index in self.chosen if index not in objects]
        for index in self.chosen:
            ways.extend(self._attributes(index))
        if len(subjects) < 2:
            for index in range(len(self.scene.entities)):
                if index not in self.chosen and self._apart(index):
                    ways.append((lambda index=index: self._name(index), 0.6))  # type: ignore[misc]
        if left >= 2:
            ways.extend(
                (lambda link=link: self._relate(link), 3.0)  # type: ignore[misc]
                for link in self._relations()
                if link.subject in subjects and link.object not in self.chosen
            )
        return [way for way, _ in ways], [weight for _, weight in ways]

    def _apart(self, index: int) -> bool:
        """Tell whether an entity cannot be meant by what is named: not "a dog and an animal"."""
        kind = self.scene.entities[index].kind
        return all(kind not in leaves(said.kind) for said in self.chosen.values())

    def situation(self) -> Situation:
        """Return the statement's meaning, its entities in the order they were named."""
        order = {index: at for at, index in enumerate(self.chosen)}
        relations = (Relation(order[r.subject], r.name, order[r.object]) for r in self.links)
        return Situation(tuple(self.chosen.values()), tuple(relations), self.place, self.sky)

    def _set_place(self) -> None:
        self.place = self._level(self.scene.place or "", 0.6)
        self.count += 1

    def _set_sky(self) -> None:
        self.sky = self.scene.sky
        self.count += 1

    def _level(self, name: str, leaf: float) -> str:
        above = [concept for concept in ancestors(name)[1:] if self._new(concept)]
        if not above or self.rng.random() < leaf:
            return name
        return self.rng.choices(above, [_VAGUE.get(concept, 1.0) for concept in above])[0]

    def _new(self, concept: str) -> bool:
        below = leaves(concept)
        return all(set(below).isdisjoint(leaves(said.kind)) for said in self.chosen.values())

    def _name(self, index: int) -> None:
        self.chosen[index] = Entity(self._level(self.scene.entities[index].kind, 0.5))
        self.count += 1

    def _attributes(self, index: int) -> list[tuple[Callable[[], None], float]]:
        whole, said = self.scene.entities[index], self.chosen[index]
        found: dict[str, str | bool] = {}
        plain = is_a(whole.kind, "thing") and said.kind != whole.kind
        if whole.colour and not said.colour and not (plain and whole.colour in ("white", "black")):
            found["colour"] = whole.colour
        if whole.size and not said.size and said.kind in _SIZED_KINDS:
            found["size"] = whole.size
        if whole.hat and not said.hat:
            found["hat"] = True
        implied = [
            IMPLIED_ACTIONS.get(link.name, (None, None))[side]
            for link in self.links
            for side in (0, 1)
            if (link.subject, link.object)[side] == index
        ]
        implied += [
            self.chosen[other].action
            for link in self.links
            if link.name in TOGETHER and index in (link.subject, link.object)
            for other in (link.subject, link.object)
        ]
        if whole.action and not said.action and whole.action not in implied:
            found["action"] = whole.action

        def way(name: str, value: str | bool) -> Callable[[], None]:
            return lambda: self._say(index, name, value)

        return [
            (way(name, value), _COLOUR_WEIGHT if name == "colour" else 1.2)
            for name, value in found.items()
        ]

    def _say(self, index: int, name: str, value: str | bool) -> None:
        self.chosen[index] = replace(self.chosen[index], **{name: value})  # type: ignore[arg-type]
        self.count += 1

    def _relations(self) -> list[Relation]:
        direct = list(self.scene.relations)
        turned = [Relation(r.object, r.name, r.subject) for r in direct if r.name in SYMMETRIC]
        return direct + turned

    def _relate(self, link: Relation) -> None:
        self._name(link.object)
        name = link.name
        if self.rng.random() < 0.3:
            target = self.scene.entities[link.object].kind
            still = any(is_a(target, kind) for kind in _STILL)
            above = [each for each in implied_relations(name)[1:] if each != "with" or not still]
            name = self.rng.choice(above) if above else name
        action = self.chosen[link.subject].action
        subject_implied = IMPLIED_ACTIONS.get(name, (None, None))[0]
        if action and action == subject_implied:
            self.chosen[link.subject] = replace(self.chosen[link.subject], action=None)
            self.count -= 1
        self.links.append(Relation(link.subject, name, link.object))
        self.count += 1
