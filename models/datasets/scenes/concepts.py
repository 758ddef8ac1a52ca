"""The concept hierarchy: what the built-in collection can show, and what stands above it.

Every name is a node of a directed acyclic graph; `PARENTS` gives the nodes right above one. A
name without children is a leaf: scenes are made of leaves, statements of names at any level.
"""

from __future__ import annotations

from functools import cache

PARENTS: dict[str, tuple[str, ...]] = {
    "person": (),
    "adult": ("person",),
    "child": ("person",),
    "man": ("adult",),
    "woman": ("adult",),
    "boy": ("child",),
    "girl": ("child",),
    "animal": (),
    "pet": ("animal",),
    "farm animal": ("animal",),
    "bird": ("animal",),
    "dog": ("pet",),
    "poodle": ("dog",),
    "labrador": ("dog",),
    "cat": ("pet",),
    "rabbit": ("pet",),
    "horse": ("farm animal",),
    "cow": ("farm animal",),
    "sheep": ("farm animal",),
    "pig": ("farm animal",),
    "hen": ("farm animal", "bird"),
    "duck": ("bird",),
    "parrot": ("bird",),
    "penguin": ("bird",),
    "thing": (),
    "vehicle": ("thing",),
    "car": ("vehicle",),
    "bicycle": ("vehicle",),
    "boat": ("vehicle",),
    "sled": ("vehicle",),
    "toy": ("thing",),
    "ball": ("toy",),
    "kite": ("toy",),
    "balloon": ("toy",),
    "furniture": ("thing",),
    "bench": ("furniture",),
    "chair": ("furniture",),
    "table": ("furniture",),
    "plant": ("thing",),
    "tree": ("plant",),
    "flower": ("plant",),
    "umbrella": ("thing",),
    "book": ("thing",),
    "cup": ("thing",),
    "cake": ("thing",),
    "snowman": ("thing",),
    "outdoors": (),
    "indoors": (),
    "waterside": ("outdoors",),
    "park": ("outdoors",),
    "street": ("outdoors",),
    "snow": ("outdoors",),
    "farm": ("outdoors",),
    "forest": ("outdoors",),
    "beach": ("waterside",),
    "lake": ("waterside",),
    "kitchen": ("indoors",),
    "living room": ("indoors",),
    "classroom": ("indoors",),
}

SKIES = ("sunny", "rainy", "sunset", "night")
SIZES = ("small", "big")

CLOTHES = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")
BRIGHT = ("red", "orange", "yellow", "green", "blue", "purple")
ANIMAL_COLOURS: dict[str, tuple[str, ...]] = {
    "poodle": ("white", "black", "brown", "grey"),
    "labrador": ("white", "black", "brown"),
    "cat": ("grey", "orange", "black", "white"),
    "rabbit": ("white", "brown", "grey"),
    "horse": ("brown", "black", "white"),
    "cow": ("brown", "black", "white"),
    "sheep": ("white", "black"),
    "hen": ("white", "brown"),
    "duck": ("white", "brown"),
    "parrot": ("red", "green", "blue"),
}
THING_COLOURS: dict[str, tuple[str, ...]] = {
    "car": (*BRIGHT, "white", "black"),
    "bicycle": BRIGHT,
    "boat": (*BRIGHT, "white"),
    "sled": BRIGHT,
    "ball": BRIGHT,
    "kite": BRIGHT,
    "balloon": BRIGHT,
    "chair": BRIGHT,
    "tree": ("green", "orange"),
    "flower": ("red", "orange", "yellow", "purple", "white"),
    "umbrella": BRIGHT,
    "book": BRIGHT,
    "cup": BRIGHT,
}
SIZED = ("poodle", "labrador", "ball", "tree")

# Always in the background of a place, hence always true there.
SCENERY: dict[str, str] = {"forest": "tree"}

RELATIONS = (
    "walking",
    "riding",
    "holding",
    "reading",
    "flying",
    "kicking",
    "throwing",
    "playing with",
    "pulling",
    "chasing",
    "sitting on",
    "on",
    "in",
    "under",
    "next to",
    "hand in hand with",
    "with",
)
SYMMETRIC = frozenset({"next to", "hand in hand with", "with"})

# What is also true of a pair when a relation holds; everything related is `with` the other.
IMPLIED_RELATIONS: dict[str, tuple[str, ...]] = {
    "reading": ("holding",),
    "kicking": ("playing with",),
    "throwing": ("playing with",),
    "riding": ("on",),
    "sitting on": ("on",),
    "hand in hand with": ("next to",),
}
# What a relation says about the action of its subject and of its object.
IMPLIED_ACTIONS: dict[str, tuple[str | None, str | None]] = {
    "walking": ("walking", "walking"),
    "pulling": ("walking", None),
    "chasing": ("running", None),
    "sitting on": ("sitting", None),
}
# Who is related so does the same.
TOGETHER = frozenset({"hand in hand with"})


@cache
def ancestors(name: str) -> tuple[str, ...]:
    """Return `name` and every concept above it, the nearest first."""
    found = [name]
    for at in found:
        found.extend(parent for parent in PARENTS[at] if parent not in found)
    return tuple(found)


@cache
def is_a(name: str, concept: str) -> bool:
    """Tell whether `name` is `concept` or lies below it."""
    return concept in ancestors(name)


@cache
def leaves(concept: str) -> tuple[str, ...]:
    """Return the leaves at or below a concept, in the order of `PARENTS`."""
    inner = {parent for parents in PARENTS.values() for parent in parents}
    return tuple(name for name in PARENTS if name not in inner and is_a(name, concept))


@cache
def implied_relations(name: str) -> tuple[str, ...]:
    """Return `name` and every relation that holds wherever it does."""
    names = (name, *IMPLIED_RELATIONS.get(name, ()))
    return names if name == "with" else (*names, "with")
