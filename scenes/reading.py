"""Read what `wording` writes: a text of the scenes becomes a situation again.

It tells whether a caption that a model wrote is true. Punctuation is ignored, since the form is
fixed: a verb or a preposition belongs to the subject before it, and objects have neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from hasse.scenes import wording
from hasse.scenes.concepts import CHILDREN, SCENERY, is_a, leaves
from hasse.scenes.scene import Entity, Relation, Scene, Situation, Statement

Value = TypeVar("Value")
Phrase = tuple[str, ...]
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")

_KINDS = [
    kind
    for kind in {
        *CHILDREN,
        *(leaf for top in ("person", "animal", "thing") for leaf in leaves(top)),
    }
    if any(is_a(kind, top) for top in ("person", "animal", "thing"))
]
_COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black", "brown", "grey")
_ACTIONS = ("standing", "walking", "running", "sitting", "sleeping", "swimming", "flying")
_VERBS = (
    *("holding", "reading", "walking", "riding", "flying", "kicking", "throwing", "pulling"),
    *("chasing", "playing with", "sitting on"),
)


def words(text: str) -> list[str]:
    """Split a text into lower-case words, without punctuation."""
    return _WORD.findall(text.lower())


def _phrases(written: Mapping[str, Iterable[str]]) -> dict[Phrase, str]:
    return {tuple(words(text)): name for name, texts in written.items() for text in texts}


_NOUN = _phrases({kind: wording._NOUNS.get(kind, (kind,)) for kind in _KINDS})
_SIZE = _phrases(wording._SIZES)
_PLACE, _SKY = _phrases(wording._PLACES), _phrases(wording._SKIES)
_VIEW, _SKY_VIEW = _phrases(wording._VIEWS), _phrases(wording._SKY_VIEWS)
_OPENING = {tuple(text.split()): "" for text in wording._OPENINGS}
_RELATION = _phrases(
    wording._PREPOSITIONS | {verb: wording._VERBS.get(verb, (verb,)) for verb in _VERBS}
)
_COLOUR = _phrases({colour: (colour,) for colour in _COLOURS})
_ACTION = _phrases({action: (action,) for action in _ACTIONS})
_DETERMINER = _phrases({"a": ("a", "an", "his", "her", "their")})
_WEARING = _phrases({"wearing": ("in", "wearing", "dressed in", "with")})
_LONGEST = 6  # words of "a scene in a living room"


def read(text: str) -> Statement | None:
    """Return what a text states, or None if `wording` writes no such text."""
    reader = _Reader(words(text))
    situation = reader.view() or reader.situation()
    return None if situation is None else Statement(situation, text)


def names_main_thing(statement: Statement | None, scene: Scene) -> bool:
    """Tell whether a statement names a main thing of a scene, and what it does or is related to.

    Main are the entities that no relation has as its object; scenery is not. The statement has to
    name the kind itself, and no kind above it.
    """
    if statement is None:
        return False
    stated, whole = statement.situation, scene.situation
    objects = {relation.object for relation in whole.relations}
    busy = {relation.subject for relation in whole.relations}
    acting = {at for relation in stated.relations for at in (relation.subject, relation.object)}
    acting |= {at for at, entity in enumerate(stated.entities) if entity.action}
    return any(
        entity.kind == main.kind and (at in acting or not (main.action or index in busy))
        for index, main in enumerate(whole.entities)
        if index not in objects and (index == 0 or main.kind != SCENERY.get(whole.place or ""))
        for at, entity in enumerate(stated.entities)
    )


class _Reader:
    """Reads words from left to right; each method takes what it finds, or takes nothing."""

    def __init__(self, found: list[str]) -> None:
        self.words = tuple(found)
        self.at = 0
        self.entities: list[Entity] = []
        self.relations: list[Relation] = []
        self.place: str | None = None
        self.sky: str | None = None

    def view(self) -> Situation | None:
        """Read a text about no more than a place or a sky."""
        place = self.take(_VIEW)
        sky = self.take(_SKY if place else _SKY_VIEW)
        if self.at == len(self.words) and (place or sky):
            return Situation(place=place, sky=sky)
        self.at = 0
        return None

    def situation(self) -> Situation | None:
        """Read a text about entities."""
        self.take(_OPENING)
        self.around()
        if not self.clause():
            return None
        while self.take_words("and"):
            if not self.clause():
                return None
        self.around()
        if self.at < len(self.words):
            return None
        return Situation(tuple(self.entities), tuple(self.relations), self.place, self.sky)

    def around(self) -> None:
        """Read place and sky, each once."""
        while (self.place is None and self.set_place()) or (self.sky is None and self.set_sky()):
            pass

    def set_place(self) -> bool:
        """Read a place."""
        self.place = self.take(_PLACE)
        return self.place is not None

    def set_sky(self) -> bool:
        """Read a sky."""
        self.sky = self.take(_SKY)
        return self.sky is not None

    def clause(self) -> bool:
        """Read a subject and its action."""
        subject = self.noun()
        if subject is None:
            return False
        self.take_words("is")
        while self.deed(subject):
            pass
        return True

    def deed(self, subject: int) -> bool:
        """Read an action: "walking a dog", "walking", or "walking beside a dog"."""
        start = self.at
        self.take_words("and")
        if self.relate(subject):
            return True
        action = self.take(_ACTION)
        if action is None:
            self.at = start
            return False
        self.entities[subject] = replace(self.entities[subject], action=action)
        self.relate(subject)
        return True

    def relate(self, subject: int) -> bool:
        """Read a relation of a subject and its object."""
        start = self.at
        name = self.take(_RELATION)
        alive = name != "sitting on" or is_a(self.entities[subject].kind, "person")
        target = self.noun() if name and alive else None
        if name is None or target is None:
            self.at = start
            return False
        self.relations.append(Relation(subject, name, target))
        return True

    def noun(self) -> int | None:
        """Read a noun phrase; return the number of its entity."""
        start = self.at
        if not self.take(_DETERMINER):
            return None
        size, action = self.take(_SIZE), self.take(_ACTION)
        colour, kind = self.take(_COLOUR), self.take(_NOUN)
        if kind is None:
            self.at = start
            return None
        clothes, hat = self.clothes() if is_a(kind, "person") else (None, False)
        self.entities.append(Entity(kind, colour or clothes, size, hat, action))
        return len(self.entities) - 1

    def clothes(self) -> tuple[str | None, bool]:
        """Read the colour of a person's clothes, and whether there is a hat."""
        start = self.at
        if not self.take(_WEARING):
            return None, False
        if self.take_words("a", "hat"):
            return None, True
        coat = self.take(_DETERMINER)
        colour = self.take(_COLOUR)
        if colour is None or (coat and not self.take_words("coat")):
            self.at = start
            return None, False
        hat = self.take_words("and", "a", "hat") or self.take_words("with", "a", "hat")
        return colour, hat

    def take_words(self, *expected: str) -> bool:
        """Read these words."""
        there = self.words[self.at : self.at + len(expected)] == expected
        self.at += len(expected) if there else 0
        return there

    def take(self, phrases: Mapping[Phrase, Value]) -> Value | None:
        """Read the longest of some phrases that comes next."""
        for length in range(_LONGEST, 0, -1):
            found = self.words[self.at : self.at + length]
            if len(found) == length and found in phrases:
                self.at += length
                return phrases[found]
        return None
