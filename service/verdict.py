"""From a probability to a verdict and its words: the same on the page, in commands and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

Verdict = Literal["shows", "may_show", "not"]

# What is true more often than not.
SHOWS = 0.5
# What is true once in five times: on a screen of such hits there is probably one, worth a look.
# Below it, a person would look at more wrong hits than fit on a screen before a right one.
MAY_SHOW = 0.2

HIT_WORDS: Mapping[Verdict, str] = {
    "shows": "shows it",
    "may_show": "may show it",
    "not": "nearest, but not it",
}
# Of one claim about a picture: there is no other that could be nearer.
CLAIM_WORDS: Mapping[Verdict, str] = {**HIT_WORDS, "not": "does not show it"}
# Of a text that may follow from another text.
TEXT_WORDS: Mapping[Verdict, str] = {
    "shows": "it follows",
    "may_show": "it may follow",
    "not": "it does not follow",
}
# Where a text stands that says the words of a query.
WHERE_WORDS: Mapping[str, str] = {
    "caption": "in its caption",
    "title": "in its title",
    "keyword": "as a keyword",
    "added keyword": "as a keyword",
    "description": "in its description",
    "file name": "in its name",
    "text in the picture": "in the picture",
    "place": "as its place",
    "camera": "as its camera",
    "folder": "in its folder",
    "written caption": "in a caption by a model",
}
NOTHING_SHOWS = "Nothing here shows this"


def verdict(probability: float) -> Verdict:
    """Return the verdict on what is true with this probability."""
    if probability >= SHOWS:
        return "shows"
    return "may_show" if probability >= MAY_SHOW else "not"


def is_true(probability: float | None) -> bool:
    """Return whether something is true more often than not; what is not known is not."""
    return probability is not None and verdict(probability) == "shows"


def may_be_true(probability: float | None) -> bool:
    """Return whether something may be true; what is not known is not."""
    return probability is not None and verdict(probability) != "not"


def nothing_shows(probabilities: Iterable[float | None]) -> bool:
    """Return whether no hit may be true; of hits without a probability this is not known."""
    each = list(probabilities)
    known = [one for one in each if one is not None]
    return bool(known) and len(known) == len(each) and verdict(max(known)) == "not"


def percent(probability: float) -> str:
    """Return a probability in words that never claim certainty: "96 %", "over 99 %"."""
    if probability > 0.99:
        return "over 99 %"
    return "under 1 %" if probability < 0.01 else f"{round(100 * probability)} %"
