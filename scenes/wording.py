"""Write situations as English, so that a text has one meaning and a meaning several texts.

The form is fixed to keep this true: each clause is about one subject; what its objects are
like stands before their noun or right after it ("a running cat", "a boy in red"), so that
every verb belongs to the subject; place and sky belong to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hasse.scenes.concepts import IMPLIED_ACTIONS, is_a
from hasse.scenes.scene import Entity, Situation

_NOUNS: dict[str, tuple[str, ...]] = {
    "child": ("child", "kid"),
    "adult": ("adult", "grown-up"),
    "person": ("person",),
    "bicycle": ("bicycle", "bike"),
    "labrador": ("labrador",),
    "thing": ("thing", "object"),
    "hen": ("hen", "chicken"),
    "sled": ("sled", "sledge"),
    "furniture": ("piece of furniture",),
}
_SIZES = {"small": ("small", "little"), "big": ("big", "large")}
_POSSESSIVES = {"man": "his", "boy": "his", "woman": "her", "girl": "her"}

_PREPOSITIONS: dict[str, tuple[str, ...]] = {
    "on": ("on",),
    "in": ("in",),
    "under": ("under",),
    "next to": ("next to", "beside"),
    "hand in hand with": ("hand in hand with",),
    "with": ("with",),
}
_VERBS: dict[str, tuple[str, ...]] = {
    "holding": ("holding", "carrying"),
    "chasing": ("chasing", "running after"),
    "sitting on": ("sitting on",),
}
_PLACES: dict[str, tuple[str, ...]] = {
    "outdoors": ("outdoors", "outside"),
    "indoors": ("indoors", "inside"),
    "waterside": ("by the water", "near the water"),
    "park": ("in a park", "in the park"),
    "street": ("on a street", "in the street"),
    "snow": ("in the snow", "in a snowy landscape"),
    "farm": ("on a farm",),
    "forest": ("in a forest", "in the woods"),
    "beach": ("on a beach", "at the beach"),
    "lake": ("at a lake", "by the lake"),
    "kitchen": ("in a kitchen", "in the kitchen"),
    "living room": ("in a living room", "in the living room"),
    "classroom": ("in a classroom", "in the classroom"),
}
_VIEWS: dict[str, tuple[str, ...]] = {
    "outdoors": ("an outdoor scene", "a scene outdoors"),
    "indoors": ("an indoor scene", "a scene indoors", "a room"),
    "waterside": ("a scene by the water", "a place by the water"),
    "park": ("a park", "a scene in a park"),
    "street": ("a street", "a street scene"),
    "snow": ("a snowy landscape", "a scene in the snow"),
    "farm": ("a farm", "a scene on a farm"),
    "forest": ("a forest", "a scene in the woods"),
    "beach": ("a beach", "a scene on a beach"),
    "lake": ("a lake", "a scene at a lake"),
    "kitchen": ("a kitchen", "a scene in a kitchen"),
    "living room": ("a living room", "a scene in a living room"),
    "classroom": ("a classroom", "a scene in a classroom"),
}
_SKIES: dict[str, tuple[str, ...]] = {
    "sunny": ("on a sunny day", "in the sunshine"),
    "rainy": ("in the rain", "on a rainy day"),
    "sunset": ("at sunset",),
    "night": ("at night",),
}
_SKY_VIEWS: dict[str, tuple[str, ...]] = {
    "sunny": ("a sunny day", "a sunny scene"),
    "rainy": ("a rainy day", "a scene in the rain"),
    "sunset": ("a sunset", "a scene at sunset"),
    "night": ("a scene at night", "a night scene"),
}
_OPENINGS = ("there is ", "a picture of ", "a picture with ")


def write(situation: Situation, rng: Random) -> str:
    """Return one of the texts of a situation whose relations all start at a subject.

    Subjects are the entities that no relation has as its object; no object has relations.
    """
    if not situation.entities:
        return _view(situation, rng)
    objects = {relation.object for relation in situation.relations}
    subjects = [index for index in range(len(situation.entities)) if index not in objects]
    busy = {relation.subject for relation in situation.relations}
    busy |= {index for index in subjects if situation.entities[index].action}
    subjects.sort(key=lambda index: index not in busy)  # verbs stay with the subject before them
    finite = busy.issuperset(subjects) and rng.random() < 0.25
    clauses = [_clause(situation, index, finite, rng) for index in subjects]
    text = clauses[0][0]
    for (_, long), (clause, _) in pairwise(clauses):
        text += (", and " if long else " and ") + clause
    opened = len(clauses) == 1 and not finite and rng.random() < 0.2
    if opened:
        text = rng.choice(_OPENINGS) + text
    return _around(situation, text, rng, front=not opened)


def _view(situation: Situation, rng: Random) -> str:
    if situation.place is None:
        return rng.choice(_SKY_VIEWS[situation.sky or "sunny"])
    text = rng.choice(_VIEWS[situation.place])
    if situation.sky:
        text += " " + rng.choice(_SKIES[situation.sky])
    return text


def _around(situation: Situation, text: str, rng: Random, *, front: bool) -> str:
    parts = []
    if situation.place:
        parts.append(rng.choice(_PLACES[situation.place]))
    if situation.sky:
        parts.append(rng.choice(_SKIES[situation.sky]))
    if len(parts) == 2 and rng.random() < 0.3:
        parts.reverse()
    if parts and front and rng.random() < 0.15:
        first = parts.pop(0)
        text = f"{first}, {text}"
    return " ".join((text, *parts))


def _clause(situation: Situation, index: int, finite: bool, rng: Random) -> tuple[str, bool]:
    """Return the clause about a subject, and whether a comma must part it from the next."""
    entity = situation.entities[index]
    prepositional: list[str] = []
    verbal: list[str] = []
    for relation in situation.relations:
        if relation.subject != index:
            continue
        target = situation.entities[relation.object]
        owner = None
        if relation.name == "walking" or (relation.name, target.kind) == ("riding", "bicycle"):
            owner = entity.kind
        noun = _noun_phrase(target, rng, owner=owner, doing=_shown(target, relation.name))
        if relation.name in _PREPOSITIONS:
            prepositional.append(f"{rng.choice(_PREPOSITIONS[relation.name])} {noun}")
        else:
            verbal.append(f"{rng.choice(_VERBS.get(relation.name, (relation.name,)))} {noun}")
    head = [entity.action] if entity.action else []
    lead = " ".join((*head, *prepositional))
    deeds = [lead, *verbal] if lead else verbal
    subject = _noun_phrase(entity, rng)
    if not deeds:
        return subject, entity.hat or bool(entity.colour and is_a(entity.kind, "person"))
    told = deeds[0] if len(deeds) == 1 else ", ".join(deeds[:-1]) + " and " + deeds[-1]
    return f"{subject} is {told}" if finite else f"{subject} {told}", True


def _shown(target: Entity, relation: str) -> str | None:
    implied = IMPLIED_ACTIONS.get(relation, (None, None))[1]
    return None if target.action == implied else target.action


def _noun_phrase(
    entity: Entity, rng: Random, *, owner: str | None = None, doing: str | None = None
) -> str:
    words: list[str] = []
    if entity.size:
        words.append(rng.choice(_SIZES[entity.size]))
    dressed = is_a(entity.kind, "person")
    if doing:
        words.append(doing)
    if entity.colour and not dressed:
        words.append(entity.colour)
    words.append(rng.choice(_NOUNS.get(entity.kind, (entity.kind,))))
    text = " ".join(words)
    if owner and rng.random() < 0.3:
        text = f"{_POSSESSIVES.get(owner, 'their')} {text}"
    else:
        text = ("an " if text[0] in "aeiou" else "a ") + text
    clothes = _clothes(entity, rng) if dressed else ""
    return f"{text} {clothes}" if clothes else text


def _clothes(entity: Entity, rng: Random) -> str:
    colour = entity.colour
    choices: Sequence[str] = ("",)
    if colour and entity.hat:
        coat = f"{_article(colour)} {colour} coat"
        choices = (f"in {coat} and a hat", f"wearing {coat} and a hat", f"in {colour} with a hat")
    elif colour:
        coat = f"{_article(colour)} {colour} coat"
        choices = (f"in {coat}", f"in {colour}", f"dressed in {colour}", f"wearing {coat}")
    elif entity.hat:
        choices = ("wearing a hat", "in a hat", "with a hat")
    return rng.choice(choices)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
