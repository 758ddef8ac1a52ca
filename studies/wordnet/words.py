"""Words of captions: determiners, function words, and the ones with content."""

from __future__ import annotations

import re

TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[.,;:!?]")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


DETERMINERS = word_set(
    """
    a an the some this that these those his her its their my our your another each every
    several many few two three four five six seven eight nine ten one both all other various
    multiple
    """
)
FUNCTION_WORDS = word_set(
    """
    in on at by with from of to into onto over under near behind beside through across along
    around between above below against during for while as up down off out outside inside
    towards toward front next top upon after before about within without beneath underneath
    past like than amid among amidst alongside atop and or but is are was were be been being
    has have had who which whose where when there it he she they them him himself herself
    itself themselves away back not no because so if very too also just only together apart
    """
)


def content_words(text: str) -> list[str]:
    """Return the words of a text that name what a picture shows."""
    return [
        word
        for word in TOKEN.findall(text.lower())
        if word[0].isalnum() and word not in DETERMINERS and word not in FUNCTION_WORDS
    ]
