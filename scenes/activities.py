"""Activities: each makes a few related entities that fit a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from hasse.scenes.concepts import (
    ANIMAL_COLOURS,
    CLOTHES,
    SIZED,
    SIZES,
    THING_COLOURS,
    leaves,
)
from hasse.scenes.scene import Entity, Relation, Situation

OUTSIDE = leaves("outdoors")
INSIDE = leaves("indoors")
EVERYWHERE = (*OUTSIDE, *INSIDE)
PEOPLE = leaves("person")

# Dogs and cats also come with people and furniture, so here the others are named more often.
ANIMALS_OF: dict[str, tuple[str, ...]] = {
    "park": ("poodle", "labrador", "cat", "rabbit", "rabbit", "duck", "parrot", "parrot"),
    "street": ("poodle", "labrador", "cat", "parrot"),
    "snow": ("penguin", "penguin", "penguin", "penguin", "labrador", "poodle", "rabbit"),
    "farm": ("horse", "cow", "cow", "sheep", "sheep", "pig", "pig", "hen", "hen", "cat"),
    "forest": ("rabbit", "rabbit", "labrador", "horse", "parrot", "parrot", "cat"),
    "beach": ("labrador", "poodle", "duck", "duck", "parrot", "parrot", "horse"),
    "lake": ("duck", "duck", "duck", "labrador", "cow", "horse", "poodle"),
    "kitchen": ("cat", "poodle", "labrador", "parrot", "parrot"),
    "living room": ("cat", "poodle", "labrador", "rabbit", "parrot", "parrot"),
    "classroom": ("cat", "rabbit", "rabbit", "parrot", "parrot", "poodle"),
}

Part = Situation
Builder = Callable[[Random, str], Part]


@dataclass(frozen=True, slots=True)
class Activity:
    """A builder of one group of entities, the places it suits and how often it is chosen."""

    build: Builder
    places: tuple[str, ...]
    weight: float


ACTIVITIES: list[Activity] = []


def _activity(places: tuple[str, ...], weight: float) -> Callable[[Builder], Builder]:
    def register(build: Builder) -> Builder:
        ACTIVITIES.append(Activity(build, places, weight))
        return build

    return register


def person(rng: Random, action: str | None = None, kinds: tuple[str, ...] = PEOPLE) -> Entity:
    """Make a person in clothes of a random colour, sometimes with a hat."""
    return Entity(
        rng.choice(kinds), colour=rng.choice(CLOTHES), hat=rng.random() < 0.25, action=action
    )


def animal(rng: Random, kind: str, action: str | None = None) -> Entity:
    """Make an animal in one of the colours it has in nature."""
    return _finish(rng, Entity(kind, action=action), ANIMAL_COLOURS.get(kind, ()))


def thing(rng: Random, kind: str) -> Entity:
    """Make a thing, coloured and sized where its kind is."""
    return _finish(rng, Entity(kind), THING_COLOURS.get(kind, ()))


def _finish(rng: Random, entity: Entity, colours: tuple[str, ...]) -> Entity:
    colour = rng.choice(colours) if colours else None
    size = rng.choice(SIZES) if entity.kind in SIZED else None
    return replace(entity, colour=colour, size=size)


def _alone(entity: Entity) -> Part:
    return Part((entity,))


def _pair(subject: Entity, name: str, target: Entity) -> Part:
    return Part((subject, target), (Relation(0, name, 1),))


def _moving(rng: Random) -> str:
    return rng.choice(("standing", "walking"))


@_activity(EVERYWHERE, 1.3)
def _somebody(rng: Random, place: str) -> Part:
    quiet = place in INSIDE
    return _alone(
        person(rng, rng.choice(("standing", "walking", "standing" if quiet else "running")))
    )


@_activity(EVERYWHERE, 1.6)
def _holding(rng: Random, place: str) -> Part:
    kinds = ("cup", "balloon", "flower") if place in INSIDE else ("balloon", "flower")
    return _pair(person(rng, _moving(rng)), "holding", thing(rng, rng.choice(kinds)))


@_activity(OUTSIDE, 1.6)
def _umbrella(rng: Random, place: str) -> Part:
    return _pair(person(rng, _moving(rng)), "holding", thing(rng, "umbrella"))


@_activity(EVERYWHERE, 0.6)
def _reading(rng: Random, place: str) -> Part:
    return _pair(person(rng, "standing"), "reading", thing(rng, "book"))


@_activity(("park", "street", "beach", "snow", "forest", "lake"), 2.0)
def _walking_dog(rng: Random, place: str) -> Part:
    dog = animal(rng, rng.choice(("poodle", "labrador")), "walking")
    part = _pair(person(rng, "walking"), "walking", dog)
    if rng.random() < 0.25:
        held = thing(rng, rng.choice(("umbrella", "balloon")))
        return Part((*part.entities, held), (*part.relations, Relation(0, "holding", 2)))
    return part


@_activity(("park", "street", "forest", "lake"), 1.4)
def _cycling(rng: Random, place: str) -> Part:
    return _pair(person(rng), "riding", thing(rng, "bicycle"))


@_activity(("farm", "forest", "beach", "lake"), 1.6)
def _horse_riding(rng: Random, place: str) -> Part:
    return _pair(person(rng), "riding", animal(rng, "horse", _moving(rng)))


@_activity(("park", "beach", "farm", "snow"), 1.6)
def _kite(rng: Random, place: str) -> Part:
    action = rng.choice(("standing", "running"))
    return _pair(person(rng, action), "flying", thing(rng, "kite"))


@_activity(("park", "beach", "street", "farm", "snow", "living room"), 1.6)
def _ball_game(rng: Random, place: str) -> Part:
    return _pair(person(rng), rng.choice(("kicking", "throwing")), thing(rng, "ball"))


@_activity(("park", "street", "beach", "lake"), 1.6)
def _on_bench(rng: Random, place: str) -> Part:
    return _seated(rng, "bench")


@_activity(INSIDE, 2.6)
def _on_chair(rng: Random, place: str) -> Part:
    return _seated(rng, "chair")


def _seated(rng: Random, seat: str) -> Part:
    part = _pair(person(rng, "sitting"), "sitting on", thing(rng, seat))
    if rng.random() < 0.5:
        name, kind = rng.choice(
            (("reading", "book"), ("holding", "cup"), ("holding", "balloon"), ("holding", "flower"))
        )
        extra = Relation(0, name, 2)
        return Part((*part.entities, thing(rng, kind)), (*part.relations, extra))
    return part


@_activity(("snow",), 3.0)
def _sledding(rng: Random, place: str) -> Part:
    if rng.random() < 0.5:
        return _pair(person(rng, "walking"), "pulling", thing(rng, "sled"))
    return _pair(person(rng, kinds=("boy", "girl")), "riding", thing(rng, "sled"))


@_activity(("snow",), 2.2)
def _snowman(rng: Random, place: str) -> Part:
    if rng.random() < 0.4:
        return _alone(thing(rng, "snowman"))
    return _pair(person(rng, "standing"), "next to", thing(rng, "snowman"))


@_activity(("lake", "beach"), 2.6)
def _boating(rng: Random, place: str) -> Part:
    boat = thing(rng, "boat")
    if rng.random() < 0.3:
        return _alone(boat)
    if rng.random() < 0.25:
        return _pair(animal(rng, rng.choice(("poodle", "labrador")), "sitting"), "in", boat)
    return _pair(person(rng, "sitting"), "in", boat)


@_activity(EVERYWHERE, 1.0)
def _family(rng: Random, place: str) -> Part:
    action = _moving(rng)
    big = person(rng, action, ("man", "woman"))
    return _pair(big, "hand in hand with", person(rng, action, ("boy", "girl")))


@_activity(EVERYWHERE, 0.8)
def _friends(rng: Random, place: str) -> Part:
    return _pair(person(rng, "standing"), "next to", person(rng, "standing"))


@_activity(EVERYWHERE, 3.6)
def _some_animal(rng: Random, place: str) -> Part:
    return _alone(_animal_of(rng, place))


def _animal_of(rng: Random, place: str) -> Entity:
    kind = rng.choice(ANIMALS_OF[place])
    if kind == "duck":
        choices: tuple[str, ...] = ("swimming",) if place in ("lake", "beach") else ("standing",)
    elif kind == "parrot":
        choices = ("flying",)
    elif kind in ("hen", "penguin", "rabbit", "cow", "sheep", "pig"):
        choices = ("standing",)
    elif kind == "horse":
        choices = ("standing", "running")
    else:
        choices = ("standing", "running", "sleeping", "sitting")
        if place in INSIDE:
            choices = ("standing", "sleeping", "sitting")
    return animal(rng, kind, rng.choice(choices))


@_activity(EVERYWHERE, 1.4)
def _beside_animal(rng: Random, place: str) -> Part:
    kinds = [kind for kind in ANIMALS_OF[place] if kind not in ("duck", "parrot")]
    other = animal(rng, rng.choice(kinds), "standing")
    return _pair(person(rng, "standing"), "next to", other)


@_activity(("farm",), 4.0)
def _herd(rng: Random, place: str) -> Part:
    first, second = rng.sample(("horse", "cow", "sheep", "pig", "hen"), 2)
    return _pair(animal(rng, first, "standing"), "next to", animal(rng, second, "standing"))


@_activity(("park", "street", "beach", "snow", "farm"), 1.1)
def _chase(rng: Random, place: str) -> Part:
    hunter = animal(rng, rng.choice(("poodle", "labrador")), "running")
    prey = rng.choice(("ball", "cat", "rabbit") if place in ("park", "farm") else ("ball", "cat"))
    if prey == "ball":
        return _pair(hunter, "chasing", thing(rng, "ball"))
    return _pair(hunter, "chasing", animal(rng, prey, "running"))


@_activity(("park", "farm", "lake", "street"), 1.2)
def _tree(rng: Random, place: str) -> Part:
    tree = thing(rng, "tree")
    roll = rng.random()
    if roll < 0.35:
        return _alone(tree)
    tree = replace(tree, size="big")
    if roll < 0.7 or place == "street":
        return _pair(person(rng, rng.choice(("standing", "sitting"))), "under", tree)
    kinds = [kind for kind in ANIMALS_OF[place] if kind not in ("duck", "parrot", "hen", "horse")]
    return _pair(animal(rng, rng.choice(kinds), "standing"), "under", tree)


@_activity(("beach",), 2.0)
def _parasol(rng: Random, place: str) -> Part:
    umbrella = thing(rng, "umbrella")
    if rng.random() < 0.2:
        return _alone(umbrella)
    if rng.random() < 0.25:
        dog = animal(rng, rng.choice(("poodle", "labrador")), "sleeping")
        return _pair(dog, "under", umbrella)
    return _pair(person(rng, "sitting"), "under", umbrella)


@_activity(("street",), 3.6)
def _car(rng: Random, place: str) -> Part:
    car = thing(rng, "car")
    if rng.random() < 0.6:
        return _alone(car)
    return _pair(person(rng, "standing"), "next to", car)


@_activity(("park", "street", "beach", "lake", "farm"), 1.1)
def _left_standing(rng: Random, place: str) -> Part:
    kinds = {
        "street": ("bicycle", "bench"),
        "farm": ("bicycle", "flower"),
        "beach": ("ball", "bench"),
    }
    found = thing(rng, rng.choice(kinds.get(place, ("bicycle", "bench", "flower"))))
    if found.kind in ("bicycle", "bench") and rng.random() < 0.4:
        return _pair(person(rng, "standing"), "next to", found)
    return _alone(found)


@_activity(("park", "street", "lake"), 0.8)
def _animal_on_bench(rng: Random, place: str) -> Part:
    return _pair(animal(rng, "cat", rng.choice(("sitting", "sleeping"))), "on", thing(rng, "bench"))


@_activity(INSIDE, 3.0)
def _on_table(rng: Random, place: str) -> Part:
    table = thing(rng, "table")
    if rng.random() < 0.2:
        top = animal(rng, "cat", rng.choice(("sitting", "sleeping")))
    else:
        kinds = (
            ("book", "flower", "cup") if place == "classroom" else ("cup", "cake", "cake", "book")
        )
        top = thing(rng, rng.choice(kinds))
    return _pair(top, "on", table)


@_activity(INSIDE, 1.2)
def _under_table(rng: Random, place: str) -> Part:
    below = rng.choice(("cat", "poodle", "labrador", "ball"))
    table = thing(rng, "table")
    if below == "ball":
        return _pair(replace(thing(rng, "ball"), size="small"), "under", table)
    hidden = animal(rng, below, rng.choice(("sitting", "sleeping")))
    return _pair(replace(hidden, size="small" if hidden.size else None), "under", table)


@_activity(INSIDE, 1.6)
def _animal_on_chair(rng: Random, place: str) -> Part:
    return _pair(animal(rng, "cat", rng.choice(("sitting", "sleeping"))), "on", thing(rng, "chair"))


@_activity(INSIDE, 1.4)
def _chair_or_table(rng: Random, place: str) -> Part:
    seat = thing(rng, rng.choice(("chair", "table")))
    if rng.random() < 0.5:
        return _alone(seat)
    return _pair(person(rng, "standing"), "next to", seat)
