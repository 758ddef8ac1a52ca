"""Compose scenes: one or two activities that fit a place and fit beside each other."""

from __future__ import annotations

from random import Random

from hasse.scenes.activities import ACTIVITIES, OUTSIDE, Activity
from hasse.scenes.concepts import SCENERY, SKIES, leaves
from hasse.scenes.placement import WIDEST, width
from hasse.scenes.scene import Entity, Relation, Scene, Situation

PLACES = (*leaves("outdoors"), *leaves("indoors"))
_SKY_WEIGHTS = {"sunny": 4, "sunset": 2, "rainy": 2, "night": 2}
_BY_PLACE: dict[str, list[Activity]] = {
    place: [activity for activity in ACTIVITIES if place in activity.places] for place in PLACES
}
_FLIERS = ("kite", "parrot")


def compose(rng: Random) -> Scene:
    """Sample a scene: a place, a sky when outdoors, and one or two groups that fit the room."""
    place = rng.choice(PLACES)
    sky = None
    if place in OUTSIDE:
        skies = [name for name in SKIES if (place, name) != ("snow", "rainy")]
        sky = rng.choices(skies, [_SKY_WEIGHTS[name] for name in skies])[0]
    first = _choose(rng, place)
    situation = Situation(first.entities, first.relations, place, sky)
    if rng.random() < 0.62:
        for _ in range(6):
            second = _choose(rng, place)
            together = _beside(situation, second)
            if _clear(first, second) and width(together) <= WIDEST:
                situation = together
                break
    if place in SCENERY:
        tree = Entity(SCENERY[place], colour="green", size="big")
        situation = Situation((*situation.entities, tree), situation.relations, place, sky)
    return Scene(situation, look=rng.getrandbits(31))


def _choose(rng: Random, place: str) -> Situation:
    choices = _BY_PLACE[place]
    activity = rng.choices(choices, [each.weight for each in choices])[0]
    return activity.build(rng, place)


def _beside(first: Situation, second: Situation) -> Situation:
    shift = len(first.entities)
    moved = (Relation(r.subject + shift, r.name, r.object + shift) for r in second.relations)
    return Situation(
        (*first.entities, *second.entities),
        (*first.relations, *moved),
        first.place,
        first.sky,
    )


def _clear(first: Situation, second: Situation) -> bool:
    """Tell whether two groups stay apart: not two fliers in one sky, not a thing twice."""
    kinds = {entity.kind for entity in first.entities}
    others = {entity.kind for entity in second.entities}
    twice = {kind for kind in kinds & others if kind in leaves("thing")}
    both_fly = bool(kinds & set(_FLIERS)) and bool(others & set(_FLIERS))
    return not twice and not both_fly
