"""Phrases of which captions of drawn scenes are composed."""

from __future__ import annotations

from hasse.models.captioning.phrases import Phrases
from hasse.scenes import Scene, holds
from hasse.scenes.concepts import leaves
from hasse.scenes.reading import read


def _nouns(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in kinds)


USUAL = Phrases(
    people=_nouns(*leaves("person")),
    things=_nouns(*leaves("animal"), *leaves("thing"), "dog"),
    general=_nouns("animal", "pet", "farm animal", "bird", "vehicle", "toy", "plant")
    + _nouns("piece of furniture"),
    actions=(
        *("standing", "walking", "running", "sitting"),
        *(f"holding {noun}" for noun in _nouns("umbrella", "balloon", "flower", "cup")),
        *(f"riding {noun}" for noun in _nouns("horse", "bicycle")),
        *(f"sitting on {noun}" for noun in _nouns("chair", "bench")),
        *(f"{verb} a ball" for verb in ("kicking", "throwing", "playing with")),
        *("reading a book", "walking a dog", "flying a kite", "pulling a sled"),
    ),
    places=(
        *(f"in {noun}" for noun in _nouns("park", "snowy landscape", "forest")),
        *(f"in {noun}" for noun in _nouns("kitchen", "living room", "classroom")),
        *(f"on {noun}" for noun in _nouns("street", "farm", "beach")),
        "at a lake",
    ),
)


def is_true_of(text: str, scene: Scene) -> bool:
    """Tell whether a caption or a phrase is true of a scene; an unreadable one is not.

    A phrase for a place is as true as the place alone: "in a park" as "a park".
    """
    statement = read(text) or read(text.partition(" ")[2])
    return statement is not None and holds(statement, scene)
