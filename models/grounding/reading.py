"""The parts of a text that follow from it, read by rule.

From "a brown dog running on the beach" follow "brown dog running", "brown dog" and "dog": the text
up to each noun, or up to where a word such as "on" stands between things, and its first noun. From
"a group of dogs" follows "dogs". A part of a part is a part.
"""

from __future__ import annotations

from dataclasses import dataclass

from hasse.models.grounding.demands import Demands, Unit
from hasse.models.vocabulary import words

# What "of" is left out with: "a couple of dogs" are dogs.
_VAGUE = frozenset(
    {"group", "couple", "bunch", "number", "kind", "type", "bit", "lot", "set", "pair", "piece"}
    | {"picture", "photo", "image", "line", "crowd", "variety", "view", "row", "side", "top"}
    | {"part", "end", "middle", "edge", "front", "back"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """A text that follows from another, or the text itself.

    Attributes:
        text: its words, from the first to the last that says something.
        units: what it says.
    """

    text: str
    units: tuple[Unit, ...]


def parts_of(demands: Demands, text: str) -> tuple[Part, ...]:
    """Return a text and the parts that follow from it, each once, the text itself first.

    There are none if the text says nothing.
    """
    text_words = words(text)
    units = demands.units(text_words)
    found: dict[str, Part] = {}

    def add(kept: list[Unit]) -> None:
        part = " ".join(text_words[kept[0].start : kept[-1].end])
        found.setdefault(part, Part(part, tuple(kept)))

    while units:
        add(units)
        first = next((unit for unit in units if unit.is_noun), None)
        is_vague = first is not None and _is_vague(text_words, first)
        for at in range(len(units) - 1, 0, -1):
            unit, following = units[at - 1], units[at]
            if is_vague and unit is first:
                continue  # "a group" says nothing that "a group of dogs" does not
            if following.start > unit.end or unit.is_noun:
                add(units[:at])
        if first is not None and not is_vague:
            add([first])
        units = units[units.index(first) + 1 :] if is_vague and first is not None else []
    return tuple(found.values())


def _is_vague(text_words: list[str], noun: Unit) -> bool:
    """Return whether a noun is left out with the "of" after it."""
    return text_words[noun.start] in _VAGUE and text_words[noun.end : noun.end + 1] == ["of"]
