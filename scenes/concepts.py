"""The concept hierarchy of the built-in collection.

Every name is a node of a directed acyclic graph; `CHILDREN` gives the nodes right below one. A
name without children is a leaf: scenes are made of leaves, statements of names at any level.
"""

from __future__ import annotations

from functools import cache

CHILDREN: dict[str, tuple[str, ...]] = {
    "person": ("adult", "child"),
    "adult": ("man", "woman"),
    "child": ("boy", "girl"),
    "animal": ("pet", "farm animal", "bird"),
    "pet": ("dog", "cat", "rabbit"),
    "dog": ("poodle", "labrador"),
    "farm animal": ("horse", "cow", "sheep", "pig", "hen"),
    "bird": ("hen", "duck", "parrot", "penguin"),
    "thing": ("vehicle", "toy", "furniture", "plant", "umbrella", "book", "cup", "cake", "snowman"),
    "vehicle": ("car", "bicycle", "boat", "sled"),
    "toy": ("ball", "kite", "balloon"),
    "furniture": ("bench", "chair", "table"),
    "plant": ("tree", "flower"),
    "outdoors": ("park", "street", "snow", "farm", "forest", "waterside"),
    "waterside": ("beach", "lake"),
    "indoors": ("kitchen", "living room", "classroom"),
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
        parents = (parent for parent, children in CHILDREN.items() if at in children)
        found.extend(parent for parent in parents if parent not in found)
    return tuple(found)


@cache
def is_a(name: str, concept: str) -> bool:
    """Tell whether `name` is `concept` or lies below it."""
    return concept in ancestors(name)


@cache
def leaves(concept: str) -> tuple[str, ...]:
    """Return the leaves at or below a concept, in the order of `CHILDREN`."""
    below = (leaves(child) for child in CHILDREN.get(concept, ()))
    return tuple(dict.fromkeys(leaf for each in below for leaf in each)) or (concept,)


@cache
def implied_relations(name: str) -> tuple[str, ...]:
    """Return `name` and every relation that holds wherever it does."""
    names = (name, *IMPLIED_RELATIONS.get(name, ()))
    return names if name == "with" else (*names, "with")
