"""Words for the kinds of what a query leaves out: texts that say "woman" say "people" too."""

from __future__ import annotations

import re

from hasse.index.text.query import fold
from hasse.index.text.spelling import inflections

_ARTICLE = re.compile(r"(?:an?|the|any|some) (?=.)")
_PEOPLE = (
    "people person persons human man men woman women child children boy girl baby kid guy lady "
    "gentleman player rider surfer skier crowd couple bride groom toddler adult"
)
_ANIMALS = (
    "animal pet dog puppy cat kitten bird horse cow sheep goat pig elephant zebra giraffe bear"
)
_VEHICLES = (
    "vehicle car taxi van truck lorry bus train tram motorcycle motorbike bicycle bike boat ship "
    "airplane plane helicopter"
)
_FOOD = "food meal pizza sandwich burger cake bread fruit apple banana orange vegetable soup salad"
_FURNITURE = "furniture chair table desk sofa couch bed bench shelf cupboard"
_GROUPS = ("dog puppy", "cat kitten", "car taxi", "bike bicycle", "child boy girl baby kid toddler")
_KINDS = {
    **dict.fromkeys(("people", "person", "human"), _PEOPLE),
    "animal": _ANIMALS,
    "vehicle": _VEHICLES,
    "food": _FOOD,
    "furniture": _FURNITURE,
    **{group.split()[0]: group for group in _GROUPS},
}


def words_of(text: str) -> tuple[str, ...]:
    """Return the folded texts that say a thing: itself, its plural and singular, and its kinds."""
    thing = _ARTICLE.sub("", fold(text), count=1)
    same = [thing, *inflections(thing)]
    kinds = next((_KINDS[word].split() for word in same if word in _KINDS), [])
    plurals = [word for kind in kinds for word in (kind, *inflections(kind)[:2])]
    return tuple(dict.fromkeys((*same, *plurals)))
