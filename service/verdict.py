"""Turns a probability into a verdict and its words, for the page, commands and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

Verdict = Literal["shows", "may_show", "not"]

# At least as likely true as false.
SHOWS = 0.5
# True once in five times: a screen of such hits probably has a right one. Below this, a person
# would look at more than a screen of wrong hits before a right one.
MAY_SHOW = 0.2
# What a query leaves out may be in a picture from here on. Of 320 captioned pictures of MS-COCO,
# 2 % without a thing reach SHOWS and 10 % reach this, of those with it 20 % and 60 %.
MAY_BE_THERE = 0.1

HIT_WORDS: Mapping[Verdict, str] = {
    "shows": "shows it",
    "may_show": "may show it",
    "not": "nearest, but not it",
}
SAYS = "says it"
# For one claim about a picture, where there is no other picture that could be nearer.
CLAIM_WORDS: Mapping[Verdict, str] = {**HIT_WORDS, "not": "does not show it"}
# For a text that may follow from another text.
TEXT_WORDS: Mapping[Verdict, str] = {
    "shows": "it follows",
    "may_show": "it may follow",
    "not": "it does not follow",
}
# For a hit whose texts contain the words of a query, by the source of the text.
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
    """Return the verdict on a claim that is true with this probability."""
    if probability >= SHOWS:
        return "shows"
    return "may_show" if probability >= MAY_SHOW else "not"


def is_true(probability: float | None) -> bool:
    """Return whether a probability is at least SHOWS; False without a probability."""
    return probability is not None and verdict(probability) == "shows"


def may_be_true(probability: float | None) -> bool:
    """Return whether a probability is at least MAY_SHOW; False without a probability."""
    return probability is not None and verdict(probability) != "not"


def is_hit(probability: float | None, *, says: bool) -> bool:
    """Return whether an image shows it, may show it, or has texts that say it."""
    return says or may_be_true(probability)


def hit_word(probability: float | None, *, says: bool) -> str | None:
    """Return the verdict on a hit in words; `says` means that its texts have words of the query.

    None if there is nothing to judge by.
    """
    if says and not may_be_true(probability):
        return SAYS
    return None if probability is None else HIT_WORDS[verdict(probability)]


def nothing_shows(probabilities: Iterable[float | None]) -> bool:
    """Return whether every hit has a probability, and all are below MAY_SHOW."""
    values = list(probabilities)
    known = [value for value in values if value is not None]
    return bool(known) and len(known) == len(values) and verdict(max(known)) == "not"


def percent(probability: float) -> str:
    """Return a probability in words that never claim certainty: "96 %", "over 99 %"."""
    if probability > 0.99:
        return "over 99 %"
    return "under 1 %" if probability < 0.01 else f"{round(100 * probability)} %"
